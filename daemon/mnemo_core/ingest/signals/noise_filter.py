"""Noise filter: rejects turns of a conversation that are not worth storing. SPEC 5.7 [T]

Rejected are turns that say nothing ("ok thanks", "👍") and output that only machines write (stack traces, retries,
progress, logs). A short answer with content is kept ("Lisbon.", "47", "Tuesday at 5"), and so is what a person says
about an error. A turn wrongly kept costs little; one wrongly rejected is a lost memory: in doubt it is kept.
"""

import re
from typing import Literal

from mnemo_core.ingest.signals.preferences import find_preference
from mnemo_core.text import lexicon
from mnemo_core.text.characters import CJK, CJK_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern

RejectReason = Literal["too_short", "stop_words", "infrastructure_noise", "near_duplicate"]

# What says nothing by itself, in any number and order.
_EMPTY_WORDS = lexicon.words("noise_filter", "empty_words")
_LAUGH = lazy_pattern(
    r"(?:a?(?:ha){2,}h?|(?:he){2,}h?|(?:hi){2,}|lo+l|x+d+|w+o+w+|a+h+|o+h+|u+h+|h+m+|m+h*m+|y+a+y+|哈+|呵+|嘿+"
    r"|w{2,}|笑+)"
)
_ASIAN_EMPTY = lazy_pattern(
    "(?:好的?|行|可以|对的?|是的?|嗯+|哦+|噢|啊+|哈+|呵+|嘿+|谢谢(?:你|您|大家|啦|了)?|多谢|感谢|不客气|不用谢|没事|没关系|没问题|知道了|明白了?|了解了?|收到|懂了|你好"
    "|您好|早上?好?|早安|晚安|晚上好|下午好"
    "|再见|拜拜|好吧|好啊|好呀|好嘞|好滴|可以的|当然|确实|真的吗?|是吗|不错|太好了|太棒了|厉害|加油|辛苦了?|不是|不|没有|没|有|要|不要|算了|等等|等一下|继续|下一个|我|你|他|她|了"
    "|吗|呢|吧|啦|呀|的|那|这|就|也|都|很|再|请|一下|看看|麻烦"
    "|はい|いいえ|うん|ええ|ううん|そう(?:です(?:ね|か)?|だね|か|ですよね)?|なるほど|わかりました|分かりました|わかった|分かった|了解(?:です|しました)?|承知(?:しました|です)?|かしこまりました"
    "|ありがとう(?:ございます|ございました)?|どうも|すみません|ごめん(?:なさい|ね)?|お願いします|よろしく(?:お願いします|お願いいたします|ね)?|おはよう(?:ございます)?|こんにちは"
    "|こんばんは|おやすみ(?:なさい)?"
    "|お疲れ様(?:です|でした)?|おつかれ(?:さま(?:です|でした)?)?|いいね|いいですね|すごい(?:です(?:ね)?|ね)?|ほんと(?:う)?(?:に|です(?:か)?|だ)?|本当(?:に"
    "|です(?:か)?|だ)?|大丈夫(?:です)?|オッケー|オーケー|へえ|ふむ|えっと|あの|まあ|ね|よ|か|です|ます|笑+|草+"
    "|네|예|아니요|감사합니다|고마워(?:요)?|안녕(?:하세요)?|좋아요|알겠습니다|ㅋ+|ㅎ+)++"
)


# Said so often that they say nothing, though their words would.
_PHRASES = lazy_pattern(
    r"\b(?:good (?:morning|afternoon|evening|night|luck|job|point|idea|question|one|catch|call|to know)|(?:see"
    r"|talk to|catch) you (?:later|tomorrow|soon|then|around|there)"
    r"|talk (?:later|soon)|no (?:problem|worries|rush|need|thanks|idea)|you're welcome|my (?:pleasure|bad)"
    r"|well done|(?:nice|great|good) (?:work|job|try|catch)|take care|have (?:a )?(?:nice|good|great|fun"
    r"|lovely) ?(?:day|weekend|evening|one|night|time)?"
    r"|thank you so much|(?:many|a million) thanks|thanks a (?:lot|bunch|million|ton)|hang on|hold on"
    r"|hold that thought|one (?:moment|second|sec|minute)|just a (?:sec|second|moment|minute)|go (?:ahead|on"
    r"|for it)|keep going|carry on|me (?:too|neither)"
    r"|same here|let me (?:see|think|check|look)|in a (?:sec|second|minute)|sounds (?:good|great|like a plan"
    r"|perfect)|fair enough|long time no see|how are you(?: doing)?(?: today)?|what's up|nice to meet you"
    r"|no hurry|be right back|brb"
    r"|right away|never ?mind|on it|will do|as always|guten (?:morgen|tag|abend)|gute nacht|schönen? (?:tag"
    r"|abend|feierabend|woche|wochenende)(?: noch)?|bis (?:dann|später|bald|morgen|gleich)|kein problem"
    r"|gern geschehen|alles (?:klar|gut)|keine ahnung|keine sorge"
    r"|viel (?:glück|spaß|erfolg)|wie geht(?:'s| es dir| es ihnen)?|moment mal|einen moment|bonne (?:nuit"
    r"|journée|soirée|chance|idée)|à (?:plus|bientôt|demain|tout à l'heure|toute)|de rien|pas de (?:problème"
    r"|souci|soucis)|ça (?:marche|va|roule)|bien sûr"
    r"|tout de suite|un instant|je vois|je comprends|aucune idée|bonne continuation)\b"
)
_WORD = lazy_pattern(rf"[{CJK}]+|[^\W_{CJK}]+(?:['-][^\W_]+)*")
_STRETCHED = lazy_pattern(r"(.)\1{2,}")
_EMPTY_CHARS_MAX = 160  # longer ones say something, whatever their words

# Lines that only machines write. Loud ones are certain; quiet ones count unless a person comments on them.
_LOUD = lazy_pattern(
    r"""\s*(?:
    Traceback\ \(most\ recent | File\ "[^"\n]+",\ line\ \d | at\ [\w.$<>\[\]/ ]{2,}\(?[^()\n]*:\d+
        | at\ [\w.$<>]+\([^)\n]*\)\s*$ | Caused\ by:\ \S+(?:Error|Exception)
    | \.\.\.\ \d+\ (?:more|common\ frames) | During\ handling\ of\ the\ above | The\ above\ exception\ was
    | Exception\ in\ thread | panicked\ at | thread\ '[^'\n]+'\ panicked | goroutine\ \d+\ \[ | stack\ backtrace
        | note:\ run\ with | Segmentation\ fault | core\ dumped | Killed\s*$ | Aborted\s*$
    | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?\S*\]?[\ ,]+\S*\s*(?:\S+\s+){0,3}?\[?(?:INFO|DEBUG|WARN|WARNING|ERROR
        |FATAL|TRACE|CRITICAL|info|debug|warn|error)\b
    | \[?(?:\d\d:)\d\d:\d\d\S*\s+\[?(?:INFO|DEBUG|WARN|WARNING|ERROR|FATAL|TRACE|CRITICAL)\b | \[(?:INFO|DEBUG|WARN
        |WARNING|ERROR|FATAL|TRACE|CRITICAL|info|debug|warn|error)\]
    | (?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|CRITICAL):[\w.]+: | (?:DEBUG|TRACE|WARN)[\ :]\s*\S | INFO:?\s{2,}\S
        | INFO\ [\[\d]
    | (?:[A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d\ \S+\ \S+?(?:\[\d+\])?:) | \d+\.\d+\.\d+\.\d+\ \S+\ \S+\ \[
        | (?:INFO:\s+)?\d+\.\d+\.\d+\.\d+:\d+\ -\ " | "?(?:GET|POST|PUT|DELETE|HEAD|PATCH|OPTIONS)\ \S+\ (?:HTTP/
        |\d{3}\b)
    | HTTP/\d(?:\.\d)?\ \d{3}\b | curl:\ \(\d+\) | ssh:\ connect | (?:npm|yarn|pnpm)\ (?:ERR!|WARN|error|warn|notice)
        | (?:fatal|error|warning):\ \S | (?:[\w./-]+:\d+(?::\d+)?:\ (?:error|warning|note|fatal))
        | make(?:\[\d+\])?:\ | (?:ld|gcc|clang|cc1|collect2|bash|sh|zsh):[ ]
    | [⠁-⣿]
    | \[\s*\d+/\d+\]\ \S | \[\s*\d{1,3}%\]\ \S | Step\ \d+/\d+\ : | --->\ | Removing\ intermediate
        | Successfully\ (?:built|installed|tagged|uninstalled)\ \S | Collecting\ \S+\s*$ | Collecting\ \S+[=<>~!]
        | Requirement\ already\ satisfied
    | Using\ cached\ \S | Building\ wheels?\ for | Installing\ (?:collected|build) | Downloading\ \S+\.(?:whl|tar|gz
        |zip|jar) | Preparing\ metadata | Attempting\ uninstall | added\ \d+\ packages | up\ to\ date,\ audited
        | found\ \d+\ vulnerabilit | \d+\ packages\ are\ looking
    | Compiling\ \S+\ v?\d | Finished\ (?:`?\w+`?)\ (?:profile\ )?\[ | Running\ `|Cloning\ into | remote:[ ]
        | (?:Receiving|Counting|Compressing|Enumerating|Writing|Unpacking)\ objects | Resolving\ deltas
        | BUILD\ (?:SUCCESSFUL|FAILED) | >\ Task\ : | webpack\ \S*\ ?compiled | (?:PASS|FAIL)\s+\S+\.\w+
    | collected\ \d+\ items | \S+::\S+\ (?:PASSED|FAILED|SKIPPED|ERROR) | =+\ .*\ =+\s*$ | Process\ finished\ with
        | (?:Get|Hit|Ign|Fetched):?\d*\ \S | Reading\ package\ lists | Building\ dependency\ tree
        | Setting\ up\ \S+\ \( | Processing\ triggers | Unpacking\ \S+\ \(
    | \[?Errno\ -?\d+\] | errno\ \d | (?:connect\ |read\ |write\ )?E(?:CONN(?:REFUSED|RESET|ABORTED)|TIMEDOUT|PIPE
        |HOSTUNREACH|NOTFOUND|ADDRINUSE|AI_AGAIN)\b | net::ERR_\w+ | ERR_[A-Z_]+
    | goroutine\ \d | main\.\w+\(\) | exit\ status\ \d | Uncaught\ \w+Error | upstream\ connect\ error | \(node:\d+\)
        | W\d{4}\ \d | I\d{4}\ \d | E\d{4}\ \d | audit\[\d | \[\s*\d+\.\d{6}\]\ \S | <\?xml | <html
    )""",
    re.VERBOSE,
)
_PROGRESS = lazy_pattern(
    r"\d{1,3}%\s?\||[=#█▓▒░▏▎▍▌▋▊▉━]{5}|\b\d+(?:\.\d+)?\s?(?:it/s|[kKMG]i?B/s)|\d{1,3}%\s*(?:\(\d+/\d+\)|\["
    r"|(?:complete|done|ETA\b[^a-z]*)\s*$)|^\s*(?:[Dd]ownload|[Uu]pload|[Ll]oad|[Pp]rogress|[Bb]uild|[Ww]rit"
    r"|[Cc]opy|[Ee]xtract|[Ii]nstall|[Ss]ync|[Ii]ndex|[Rr]eceiv|[Ff]etch)[^%]{0,60}\d{1,3}%\s*$"
)
_QUIET = lazy_pattern(
    r"""\s*+[\[(<⚠️❌✗×!*\ -]*+(?:
    (?:api\ |http\ |unexpected\ |internal\ |fatal\ |unknown\ |network\ |connection\ |server\ |socket\ |request[ ]
        |gateway\ |read\ |ssl\ |tls\ |proxy\ |websocket\ |stream\ |tool\ |model\ |upload\ |download\ |database[ ]
        |the\ )*
        (?:error|connection|network|request|socket|gateway|server|stream|service|operation|handshake|session|websocket
            |upload|download|timeout|model|api|response|tool|call|host)\ ?(?:is\ |was\ |has\ |been\ |call\ |limit[ ]
            |unexpectedly\ |temporarily\ |currently\ |connection\ )*
        (?:error|errors|refused|reset|timed\ out|timeout|closed|aborted|lost|failed|failure|interrupted|dropped
            |unavailable|overloaded|unreachable|disconnected|terminated|expired|exceeded|not\ responding|busy|down)\b
    | (?:error|failure)[:\ ]+(?:timeout|timed\ out|connection|network|fetch|socket|econn|request|connect|5\d\d|4\d\d
        |rate|overloaded|unexpected\ end|failed\ to\ fetch|code\b)
    | (?:failed|unable|could\ not|couldn't|cannot|can't)\ (?:to\ )?(?:connect|reach|resolve|fetch|establish
        |open\ a\ connection|contact|load\ (?:resource|response)|read\ response)\b
    | (?:retrying|reconnecting|re-?trying|attempt(?:ing)?\ \d|attempting\ (?:to\ )?re|retry\ (?:\d|attempt|in|after
        |limit)|trying\ again\ in|backing\ off|waiting\ (?:for\ )?(?:\d|connection|server|response|retry)
        |connecting\ to|reconnected|connected\ to|connection\ (?:re-?)?(?:established|restored)|disconnected
        |still\ waiting|giving\ up\ after|max(?:imum)?\ retries)
    | (?:rate\ limit(?:ed)?|too\ many\ requests|quota\ exceeded|overloaded|service\ unavailable|bad\ gateway
        |gateway\ time-?out|internal\ server\ error|not\ found|forbidden|unauthorized|bad\ request
        |request\ entity\ too\ large)\b
    | (?:http\ )?(?:status(?:\ code)?:?\ |error\ (?:code:?\ )?|http\ )?(?:4\d\d|5\d\d)[:\ -]+(?:bad|not|internal
        |service|gateway|too|forbidden|unauthori[sz]ed|request|payment|conflict|gone|client|server)\b
        | (?:status(?:\ code)?|http|error|code):?\ (?:4\d\d|5\d\d)\b
    | something\ went\ wrong | an?\ (?:unexpected\ |unknown\ |internal\ )?error\ (?:has\ )?occurred
        | please\ try\ again(?:\ later|\ in)? | operation\ not\ permitted | permission\ denied | no\ route\ to\ host
        | name\ or\ service\ not\ known | temporary\ failure | broken\ pipe | out\ of\ memory | stream\ (?:ended
        |closed|idle)
    | (?:loading|processing|uploading|downloading|installing|compiling|building|fetching|initiali[sz]ing|starting
        |saving|syncing|indexing|generating|thinking|searching|running|deploying|scanning|analy[sz]ing
        |connecting)(?:\ [\w./@:-]+){0,4}\s*(?:\.\.\.|…)
    | (?:command|process|job|script|task|build)\ (?:failed|exited|finished|terminated)\ with
        | exit(?:ed)?\ (?:with\ )?(?:code|status)\b | (?:done|finished|completed?)\ in\ [\d.]+\ ?m?s | [⏳🔄]
    | verbindung\ (?:abgebrochen|verloren|fehlgeschlagen|unterbrochen|abgelehnt|verweigert|zum\ server)
        | zeitüberschreitung | erneuter\ versuch | netzwerkfehler | erreur\ (?:de\ connexion|réseau|interne|\d{3})
        | connexion\ (?:perdue|refusée|interrompue|expirée) | délai\ d'attente
    | (?:网络|连接|请求|服务器?)(?:错误|超时|失败|中断|断开|异常|繁忙|被拒绝) | 正在(?:重试|重新连接|加载|连接|下载
        |上传) | (?:接続|通信|ネットワーク|サーバー)(?:エラー|が切断|に失敗|がタイムアウト) | タイムアウト | 再接続
        | 再試行 | 読み込み中
    )""",
    re.VERBOSE | re.IGNORECASE,
)
# builtins.ValueError: … — certain within a trace; alone, unless a person explains it.
_NAMED_ERROR = lazy_pattern(r"\s*(?:[\w$]+[.:]+)*[A-Z]\w+(?:Error|Exception|Interrupt|Warning)(?::\ .*|\s*)$")
# Words of machine messages, besides names, numbers and paths. Any other word means that a person speaks.
_MACHINE_WORDS = lexicon.words("noise_filter", "machine_words")
_FIGURE = lazy_pattern(r"\d|\w[./:=_]\w")
_PLAIN_WORD = lazy_pattern(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


_LINE_CHARS_MAX = 400  # of a line, enough to classify it
_QUIET_WORDS_MAX = 16
# A person describes an error, its cause or its fix.
_TOLD = lazy_pattern(
    r"\b(?:i|i'm|i've|i'd|we|we're|we've|my|our|us|because|since|so|every|always|never|use|using|used|fix|fixed"
    r"|fixes|solved|solution|workaround|turns|caused|cause|due|yesterday|today"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|when|whenever|until|unless|should|means|if|but"
    r"|after the|ich|wir|weil|seit|wenn|mein|unser|immer|heute|gestern|je|nous|parce|depuis|quand|mon|notre"
    r"|toujours|hier)\b"
    r"|因为|所以|每次|我|如果|昨天|今天|原因|から|ので|たら|すると|今日|昨日",
    re.IGNORECASE,
)
_INDENTED = lazy_pattern(r"(?:\t|  +)\S|[\s^~|+-]+$|[})\]];?,?$")


def reject_reason(text: str) -> RejectReason | None:
    """The reason why the text is not worth storing, None when it may be. Near duplicates are tested elsewhere."""
    plain = text.strip()
    if not any(character.isalnum() for character in plain):
        return "too_short"
    if len(plain) <= _EMPTY_CHARS_MAX and _says_nothing(plain) and not find_preference(plain):
        return "stop_words"
    return "infrastructure_noise" if _is_of_machines(plain) else None


def _says_nothing(plain: str) -> bool:
    lowered = plain.lower().replace("’", "'")
    return all(_is_empty(word) for word in _WORD.findall(_PHRASES.sub(" ", lowered)))


def _is_empty(word: str) -> bool:
    if CJK_CHARACTER.match(word):
        return _ASIAN_EMPTY.fullmatch(word) is not None
    if word in _EMPTY_WORDS or _LAUGH.fullmatch(word):
        return True
    return _STRETCHED.sub(r"\1", word) in _EMPTY_WORDS if _STRETCHED.search(word) else False


def _is_of_machines(plain: str) -> bool:
    """Return whether every line is a machine's, or continues one."""
    seen = False
    for line in plain.splitlines():
        if not line.strip():
            continue
        head = line[:_LINE_CHARS_MAX]
        if _LOUD.match(head) or _is_quiet(head) or (_NAMED_ERROR.match(head) and (seen or not _TOLD.search(head))):
            seen = True
        elif not (seen and _INDENTED.match(head)) and not _says_nothing(head):
            return False
    return seen


def _is_quiet(line: str) -> bool:
    """Return whether the line is a mere complaint or progress report of a machine, with no person's words about it."""
    if _PROGRESS.search(line):
        return not _TOLD.search(line)
    if not _QUIET.match(line) or len(line.split()) > _QUIET_WORDS_MAX:
        return False
    # Chunks with figures, paths and hosts are no words of a language.
    spoken = (chunk for chunk in line.split() if not _FIGURE.search(chunk))
    return (
        all(
            word.lower() in _MACHINE_WORDS or CJK_CHARACTER.match(word) or word.isupper()
            for chunk in spoken
            for word in _PLAIN_WORD.findall(chunk)
        )
        or CJK_CHARACTER.search(line) is not None
    )
