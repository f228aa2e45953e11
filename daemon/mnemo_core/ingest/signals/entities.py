"""Whether a text names something: a person, a place, an organisation, a product, a file, a piece of code. SPEC 5.3

No model and no dictionary. What tells a name, surest first: how it is written (`code`, file.py, @handle, camelCase), a
list of well-known names, and a capital where the language has none for common words. English and French have none
within a sentence; at its beginning a capital says nothing unless a verb of people follows ("Anna said"). In German
every noun has one, so there a name needs a title, a place's preposition or a verb of people. A line that is a title, or
all in capitals, says nothing by its capitals.

What is missed for certain: a name that no list has, at the beginning of a sentence or all in small letters.
"""

import re
from typing import Literal

Language = Literal["en", "de", "fr"]

_GERMAN_WORDS_LIST = """
der das und ist nicht ich die am hat war vor kommt geht gibt steht diese dieser dieses ein eine einen einer einem mit
für auf zu zum zur im den dem des wir sie auch noch nur wenn weil dass bei nach von hab habe haben sind bitte kein keine
mein meine meinem meiner mir mich dir dich uns euch ihr sehr wird wurde aber oder doch mal schon jetzt heute morgen
gestern immer nie lieber wie wo wann warum kann muss soll über gegen vom beim es ja nein danke
"""
_GERMAN_WORDS = frozenset(_GERMAN_WORDS_LIST.split())
_FRENCH_WORDS_LIST = """
le la les un une des du et est je tu il elle nous vous que qui pour dans avec sur pas plus mon ma mes ton ta son sa ses
ce cette au aux ne mais ou où sont suis ai j'ai c'est n'est qu'il d'un d'une chez demain hier aujourd'hui très merci oui
non toujours jamais bonjour on se y
"""
_FRENCH_WORDS = frozenset(_FRENCH_WORDS_LIST.split())
_ENGLISH_WORDS_LIST = """
the and is not i a an of to in for on with we you it that this are was my our at be have has do but if from they he she
will can please don't i'm it's just so as or no yes by
"""
_ENGLISH_WORDS = frozenset(_ENGLISH_WORDS_LIST.split())
SMALL_WORDS = _GERMAN_WORDS | _FRENCH_WORDS | _ENGLISH_WORDS

# How it is written is proof enough.
_CODE = re.compile(r"`([^`\n]{2,80})`")
_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s<>\"')\]]+|(?<![\w@/.])@[A-Za-z][\w.-]{2,38}(?!\w)"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]+\.[A-Za-z][\w.-]+"
)
_FILE_END = re.compile(
    r"\.(?:py|pyi|ipynb|js|mjs|jsx|ts|tsx|go|rs|rb|java|kt|c|cc|cpp|h|hpp|cs|php|swift|sh|bash|zsh|sql|html|css"
    r"|scss|md|rst|org|txt|pdf|docx?|xlsx?"
    r"|pptx?|csv|tsv|json|jsonl|yaml|yml|toml|ini|cfg|conf|env|lock|xml|svg|png|jpe?g|gif|mp[34]|wav|zip|gz|tar"
    r"|log|tex|bib|proto|tf|service|mdb|db"
    r"|sqlite|onnx|whl|deb|exe|dll|so|apk|iso|com|net|io|dev|de|fr|jp|cn)(?![\w-]|\.\w)"
)
_PATH = re.compile(r"(?<![\w.:/])(?:~|\.{1,2})?/(?:[\w.@-]+/)+[\w.@-]*")
_FILE_CHARS_MAX = 200
_LINE_CHARS_MAX = 200  # a title is shorter
# userName, GitHub, iPhone, PostgreSQL, user_name, Foo::bar, get_user()
_IDENTIFIER = re.compile(
    r"(?<![\w'])(?:[a-z]+[A-Z]\w*[a-z]\w*|(?!Mc[a-z]|I'[a-z])[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*"
    r"|[A-Za-z]\w*_\w*[A-Za-z]\w*"
    r"|_\w*[a-z]\w*|[A-Za-z]\w+\(\)|\w+(?:::\w+)+)(?!\w)"
)
# Without any of these there is no identifier, and looking for these is cheap.
_HUMP = re.compile("[a-z][A-Z]")
_HUMP_OF_CAPITALS = re.compile("[A-Z]{2}[a-z]{2}")
_INITIALS = re.compile(r"(?<![A-Za-z0-9_$%/.'-])(?:[A-Z]{2}[A-Z0-9]{0,3}|[A-Z]&[A-Z])(?![A-Za-z0-9_'])")

# Initials of common things, and what is written large for other reasons.
_NO_NAMES_LIST = """
am pm ad bc ok id ids tv pc pcs cd dvd ui ux api apis cli gui ide sdk cpu gpu ram rom ssd hdd usb url urls uri http
https html css json xml yaml csv pdf sql ssh ssl tls dns tcp udp ip ips vpn lan wan wifi ftp smtp imap jwt ci qa pr prs
mr mrs ms dr st vs faq faqs diy asap fyi btw lol omg wtf imo imho afaik iirc tbd tba tbh nb ps rip rsvp eod eow eta est
pst cet cest utc gmt pdt edt km kg cm mm ml kb mb gb tb hz ghz mhz usd eur gbp chf jpy vat hr it pr ceo cto cfo coo vp
phd mba md gp er icu dna rna mri ai ml llm llms nlp ocr rgb db dbs os vm vms kpi kpis okr okrs roi b2b mvp poc sla slo
nda hq cv tldr tl not and or no yes never always all any must should do todo note warning error info debug fatal get
post put patch delete head true false null none ii iii iv vi vii xl xs lgtm wip eof rfc nat crud orm crdt mvcc lru ttl
fifo toc gps sms qr atm pin sim bbq adhd dj suv ufo vip cctv npc rpg fps iso the for on be my your bitte nicht immer nie
kein und der die das ich gmbh ag sa sas kg hr fr uvm usw
"""
_NO_NAMES = frozenset(_NO_NAMES_LIST.split())
# Capitalised within a sentence and no name: days and months (which are dates), the speaker, forms of address.
_CAPITAL_NO_NAMES_LIST = """
i i'm i'd i'll i've im monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays
fridays saturdays sundays mon tue tues wed thu thur thurs fri sat sun january february march april may june july august
september october november december jan feb mar apr jun jul aug sep sept oct nov dec mr mrs ms dr prof sir madam mom mum
mommy mama dad daddy papa grandma grandpa granny nana auntie the a an and or but not no yes ok okay hello hi hey dear
thanks thank please this that these those it he she we they you my your our his her their if when what why how who where
there here also so then because do does did don't can could will would should must is are was were be have has had let
let's never always all some any every each more most first second third next last new old good bad great best yeah well
now just only in on at to of for with from by as up down out over after before section chapter figure table appendix
page step part item phase level note warning tip todo question answer internet web wifi easter christmas thanksgiving
halloween ramadan hanukkah god spring summer fall autumn winter je j'ai tu il elle nous vous ils elles on le la les un
une des oui non merci bonjour salut mais et ou donc car lundi mardi mercredi jeudi vendredi samedi dimanche monsieur
madame mademoiselle internet noël pâques
"""
_CAPITAL_NO_NAMES = frozenset(_CAPITAL_NO_NAMES_LIST.split())
# Known well enough to be a name in small letters and at the beginning of a sentence. None is also a common word.
_PLACES = """
amsterdam athens auckland austin bangalore bangkok barcelona basel beijing beirut belgrade bergen berlin bern bilbao
birmingham bogota boston bratislava bremen brisbane bristol brooklyn brussels bucharest budapest cairo calgary cambridge
canberra casablanca chicago cologne copenhagen dallas delhi denver dresden dubai dublin edinburgh florence frankfurt
geneva glasgow graz hamburg hanoi hannover helsinki hokkaido houston istanbul jakarta jerusalem johannesburg karachi
kathmandu kobe krakow kyiv kyoto lagos lausanne leeds leipzig lima lisbon lisboa ljubljana london luxembourg lyon madrid
malaga manchester manhattan manila marseille melbourne miami milan milano minneapolis montreal moscow mumbai munich
münchen köln wien zürich nairobi nagoya naples nuremberg nürnberg osaka oslo ottawa oxford palermo paris philadelphia
porto portland potsdam prague rome rotterdam salzburg santiago sapporo sarajevo seattle seoul seville shanghai shenzhen
singapore sofia stockholm strasbourg stuttgart sydney taipei tallinn tehran toronto toulouse tokyo turin utrecht
valencia vancouver venice vienna vilnius warsaw wellington yokohama zagreb zurich bordeaux nantes montpellier rennes
grenoble heidelberg freiburg düsseldorf afghanistan africa albania algeria america argentina armenia asia australia
austria bangladesh belgium bolivia brazil britain bulgaria cambodia cameroon canada chile colombia croatia cuba cyprus
czechia denmark ecuador egypt england estonia ethiopia europe finland france germany ghana greece hungary iceland india
indonesia iran iraq ireland israel italy jamaica japan kenya korea latvia lebanon lithuania malaysia malta mexico
moldova mongolia morocco mozambique nepal netherlands nigeria norway pakistan panama peru philippines poland portugal
romania russia scotland senegal serbia slovakia slovenia spain sweden switzerland syria taiwan tanzania thailand tunisia
uganda ukraine uruguay venezuela vietnam zambia zimbabwe california texas florida oregon bavaria tuscany sicily sardinia
corsica provence brittany hawaii deutschland österreich schweiz frankreich italien spanien polen bayern sachsen
allemagne espagne italie japon angleterre londres bruxelles alps himalaya amazonia mallorca tenerife ibiza bali okinawa
patagonia
"""
_THINGS = """
airbnb alibaba ansible arduino asana atlassian autocad aws azure bitbucket bloomberg bmw bosch chatgpt chromium
clickhouse cloudflare codeberg coursera debian deepl deliveroo django docker doordash dropbox duolingo ebay
elasticsearch emacs facebook fedora fastapi figma firefox flickr fortran freebsd gentoo github gitlab gmail google
grafana graphql hadoop haskell heroku huawei ikea instagram intellij ios ipad iphone javascript jenkins jetbrains jira
jupyter kafka keras kotlin kubernetes langchain laravel latex lenovo lidl linkedin linux lufthansa lua macbook macos
mailchimp mastodon matlab mercedes microsoft minecraft mongodb mozilla mysql neovim netflix netlify nextcloud nginx
nikon nintendo nixos nokia numpy nvidia ollama openai openshift opencv pandas paypal perl php pinterest playstation pnpm
podman postgres postgresql powerpoint prometheus pycharm pydantic pypi pytest python pytorch qgis rabbitmq reddit redis
roomba rstudio ryanair salesforce samsung sharepoint shopify siemens skype snapchat snowflake spacex spotify sqlite
stackoverflow substack supabase svelte tensorflow terraform tesla thinkpad tiktok toyota trello tumblr twilio twitter
typescript ubuntu uniqlo vercel vim vodafone volkswagen vscode webpack whatsapp wikipedia wordpress xbox xcode yelp
youtube zalando zendesk zotero zsh zulip anthropic dhl fedex unicef nasa ibm edeka rewe aldi sncf ratp airbus renault
peugeot carrefour doctolib kubectl systemd sqlalchemy hetzner
"""
# Given names. Left out: what is also a word (Will, Mark, Rose, Grace, Hope, May, Bill, Frank, Jack, Art, Dawn, Joy …);
# those need a capital within a sentence.
_PEOPLE = """
aaron abdul abigail adam adrian agnes ahmed aisha akira alan alejandro alessandro alexander alexandra alexei alice
alicia alina allison amanda amelia amina amir amit amy ana anastasia anders andrea andreas andrew angela anita anja anna
anne annette annika antoine anton antonio antonia arjun arthur astrid audrey aurelie bastian beatrice ben benjamin
bernard bernd bettina birgit björn boris brenda brian bruno camille carla carlos carmen caroline catherine cecilia
celine charlotte chloe christian christina christine christoph christopher claire clara claudia claire clemens connor
cynthia damian daniel daniela danielle david deborah deepak denise dennis diana diego dieter dimitri dmitri dominic
dominik dorothy dylan eduardo edward ekaterina elena eleanor elias elisa elisabeth elizabeth ella ellen emil emilia
emily emma enrique eric erik esther ethan eva evelyn fabian farid fatima felipe felix fernando filip fiona florian
francesca francesco francisco françois franziska frida friedrich gabriel gabriela gabriele georg george gerhard giovanni
giulia greta guillaume gustav hamza hannah hannes hans harald harriet hassan heather heidi heike heinrich helen helena
helga helmut henrik henry hiroshi holger hugo ibrahim igor ines ingrid irene isabel isabella isabelle ivan jacob jakob
jamal james jan jana jane janet jasmin jason javier jennifer jens jeremy jessica joanna jochen johan johanna johannes
john jonas jonathan jorge josé josef joseph joshua juan judith julia julian juliette julie julien jürgen justin karen
karim karin karl karolina katarina kate katharina katherine kathrin katie katja kenji kenneth kevin khalid kimberly
klara klaus konrad kristina kumar kyle larissa laura lauren laurent layla lea leah leila lena leon leonie leyla liam
lina linda lisa louise luca lucas lucia lucy luis luisa lukas lukasz maja malik manfred manuel manuela marc marcel marco
marcus margaret maria mariam marian marie marina mario marion markus marta martha martin martina mateo mathieu mats
matteo matthew matthias maximilian megan mehmet mei melanie melissa michael michał michel michelle miguel mikael mila
milan miriam mohamed mohammed monica monika nadia nadine naomi natalia natalie nathalie nathan nguyen nicholas nicolas
nicole niklas nikolai nils nina noah nora norbert oliver olivia olga omar oscar otto pablo pamela pascal patricia paul
paula paulina pauline pedro peter petra philip philipp philippe pierre priya rachel rafael rahul rainer raj rajesh ralf
ramon raquel rebecca regina renate ricardo richard robert roberto rolf roman rosa ruth ryan sabine sabrina samantha
samuel sandra sanjay sara sarah sascha satoshi sebastian sergei sergio sharon silke silvia simon simone sofie sonja
sophia sophie stefan stefanie stephanie stephen steven susan susanne suzanne svetlana sven takeshi tamara tanja tariq
tatiana teresa theresa thomas thorsten tiffany tim timo tina tobias tom tomas tomasz ulrike ulrich ursula uwe valentina
valerie vanessa vera verena veronica victor victoria viktor vincent vikram vladimir volker walter wei werner william
wolfgang xavier yasmin yuki yuri yusuf yves zoe anya priyanka ravi sanna björk elin kofi kwame ngozi chidi amara thandi
sipho noor zainab oksana bohdan jamie tariq
"""
# Words, too, so that they need their capital.
_CAPITAL_THINGS = """
chrome eclipse outlook notion raspberry safari steam stripe slack ups mit sap thunderbird obsidian amazon discord
"""
_KNOWN = frozenset((_PLACES + _THINGS).split())
_GIVEN = frozenset(_PEOPLE.split())
_KNOWN_BY_CAPITAL = _GIVEN | frozenset(_CAPITAL_THINGS.split())
# Given names that in small letters are words or parts of words in some language.
_GIVEN_TOO_SHORT = """
adam ben eva jan jana kate lea lina mei mila nina noor omar otto raj regina roman rosa tim tom wei yuki amara
"""
_GIVEN_SMALL = _GIVEN - frozenset(_GIVEN_TOO_SHORT.split())

_TITLES_LIST = """
mr mrs ms dr prof sir st mx miss herr frau hr fr mme mlle m monsieur madame professor doctor uncle aunt auntie captain
president señor signora
"""
_TITLES = frozenset(_TITLES_LIST.split())
_HUMAN_VERBS_LIST = """
said says told tells asked asks called calls wrote writes thinks thought wants wanted likes loves hates lives lived
works worked moved knows knew promised suggested mentioned agreed disagrees prefers emailed texted replied joined left
quit married met owns owes plays studies sagt sagte meint meinte wohnt arbeitet heißt mag möchte hat kommt ruft schreibt
fragt fragte zieht liebt findet dit habite travaille veut aime pense préfère demande vient appelle
"""
_HUMAN_VERBS = frozenset(_HUMAN_VERBS_LIST.split())
# What can stand before such a verb, begin a sentence, and is no name.
_NO_PERSONS_LIST = """
i you he she it we they who that this what someone somebody everyone everybody nobody anyone one people everything
nothing something mom mum dad mother father brother sister wife husband boss manager customer customers user users
client clients everybody both neither also then he's she's already just never always who's which there here half most
many some all none others another each whoever god doctor dentist landlord teacher neighbour neighbor legal marketing
engineering support sales finance management accounting research ich du wir ihr er sie es man wer das dies niemand
jemand jeder alles nichts was mama papa chef il elle on ce cela qui quelqu'un personne tout rien maman
"""
_NO_PERSONS = frozenset(_NO_PERSONS_LIST.split())

# In front of a German noun without an article, these make it a place or a firm, but for the nouns below.
_GERMAN_TO_PLACES_LIST = """
in nach aus bei
"""
_GERMAN_TO_PLACES = frozenset(_GERMAN_TO_PLACES_LIST.split())
_GERMAN_NO_PLACES_LIST = """
hause haus urlaub zukunft ordnung ruhe eile holz stein glas metall plastik papier leder wolle regen sonne nacht tag
bedarf gelegenheit fragen problemen rückfragen kälte hitze schnee wind wetter stille frieden gefahr bezug kürze betrieb
arbeit rente pension teilzeit vollzeit elternzeit mitleid angst spaß liebe neugier versehen prinzip überzeugung
feierabend feierabends mittag mitternacht norden süden osten westen deutsch englisch französisch spanisch raten ruf form
farbe größe summe wochen tagen monaten jahren stunden minuten kontakt verbindung schwarz weiß gedanken erinnerung besitz
panik führung produktion tränen schule licht tageslicht nachfrage anfrage erfahrung erhalt eingang ablauf unterlagen
plan vereinbarung absprache klausur mode milch fleisch
"""
_GERMAN_NO_PLACES = frozenset(_GERMAN_NO_PLACES_LIST.split())
_GERMAN_BEFORE_PERSONS_LIST = """
dass weil wenn ob und aber als bis damit denn oder
"""
_GERMAN_BEFORE_PERSONS = frozenset(_GERMAN_BEFORE_PERSONS_LIST.split())
_ORDERS_LIST = """
call email text ask tell meet visit thank ping invite message dear hi hello hey cc to from with for re and
"""
_ORDERS = frozenset(_ORDERS_LIST.split())
_SMALL_IN_TITLES_LIST = """
a an and as at but by for from in into of on or the to vs with der die das und von für de la le les et du des en
"""
_SMALL_IN_TITLES = frozenset(_SMALL_IN_TITLES_LIST.split())
# X's at the beginning of a sentence, where it is no owner.
_NO_OWNERS_LIST = """
it that what who there here where how he she let today tomorrow yesterday tonight everyone everybody someone somebody
nobody one mom mum dad life dinner lunch breakfast everything nothing something this when why mother father world week
year month day weather food coffee
"""
_NO_OWNERS = frozenset(_NO_OWNERS_LIST.split())

# Chinese and Japanese.
_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_ASIAN_KNOWN = re.compile(
    "北京|上海|广州|廣州|深圳|杭州|成都|武汉|西安|南京|苏州|天津|重庆|香港|台北|台湾|台灣|澳门|中国|日本(?!酒|食|刀)"
    "|美国|英国|法国|德国|韩国|韓国|米国|俄罗斯"
    "|意大利|西班牙|加拿大|澳大利亚|新加坡|泰国|印度|越南|巴黎|伦敦|纽约|柏林|慕尼黑|东京|東京|大阪|京都|北海道|横浜"
    "|名古屋|札幌|福岡|神戸|沖縄|奈良|仙台|広島|鎌倉"
    "|箱根|渋谷|新宿|池袋|品川|銀座|浅草|秋葉原|富士山|九州|四国|四川|云南|浙江|江苏|广东|山东|湖南|湖北|河南|河北"
    "|福建|厦门|青岛|大连|昆明|西藏|新疆|黄山|长城|故宫"
    "|千葉|埼玉|神奈川|長野|静岡|新潟|金沢|熊本|鹿児島|微信|支付宝|淘宝|京东|拼多多|腾讯|阿里|华为|小米|百度|抖音"
    "|小红书|知乎|微博|哔哩|钉钉|飞书|美团|滴滴|清华|北大"
    "|复旦|浙大|任天堂|楽天|三菱|日立|本田|松下|無印良品|资生堂|丰田|特斯拉|谷歌|微软|苹果公司|星巴克|麦当劳|肯德基"
    "|宜家|欧洲|亚洲|非洲|美洲|春节|长江|黄河"
    "|成田|羽田|関西|関東|英语|法语|德语|日语|汉语|中文|英文|法文|德文|英語|中国語|韓国語|フランス語|ドイツ語"
)
_SURNAMES = (
    "王李张刘陈杨赵黄周吴徐孙朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董潘袁蔡蒋杜程魏苏吕丁卢姚"
    "沈钟姜崔谭陆范汪廖贾夏邹熊孟秦邱侯薛闫段雷黎陶贺郝顾龚邵覃钱戴严莫"
)
_ASIAN_NAMED = re.compile(
    rf"[{_SURNAMES}][\u4e00-\u9fff]{{0,2}}(?:先生|女士|小姐|老师|教授|医生|经理|主任|律师|阿姨|叔叔|师傅"
    rf"|总(?![是在共结会之要算]))"
    rf"|[小老阿][{_SURNAMES}](?![人家]|[\u4e00-\u9fff]?色)|(?:我叫|名叫|叫做|名字(?:是|叫))[\u4e00-\u9fff]{{2,4}}"
    rf"|(?<![\u4e00-\u9fff])[{_SURNAMES}][\u4e00-\u9fff]{{1,2}}(?:说|问|告诉|觉得|喜欢|住在|负责|是我|和我|跟我|今天"
    rf"|明天|昨天|在)"
    r"|《[^》\n]{1,40}》|『[^』\n]{1,40}』|[\u4e00-\u9fff]{2}(?:县|県|州市|自治区|大学|大學|机场|空港|火车站|神社)"
    r"|[\u4e00-\u9fff]{2}(?<![最各本])(?:駅|地铁站)"
    r"|[\u4e00-\u9fff]{2}(?<![城都超股夜上个的])市(?![场場民内中区長长面集])"
    r"|(?<!お)[\u4e00-\u9fff々]{1,3}(?<![皆奥母父兄姉客屋員者手師生赤娘嫁那子爺婆孫神王同仕模多各医長])(?:さん|くん"
    r"|ちゃん|氏(?!名)|先輩)"
    r"|[\u4e00-\u9fff々]{2,3}(?<![皆客])(?:先生|部長|課長|社長)(?!は誰)|(?<![ァ-ヴー])[ァ-ヴー]{2,}+(?:(?:さん|くん|ちゃん|様)"
    r"|[・＝][ァ-ヴー]{2,})"
)
_KATAKANA = re.compile("[ァ-ヴー]{3,}")
_LOAN_WORDS_LIST = """
コーヒー ミーティング パソコン テスト サーバー サーバ データ ファイル メール メモ スマホ アプリ ホテル レストラン
カフェ ビール ワイン ケーキ パン チーズ バター ミルク ジュース サラダ スープ カレー ラーメン パスタ ピザ トマト バナナ
リンゴ オレンジ レモン チョコ チョコレート アイス デザート ランチ ディナー モーニング テレビ ラジオ カメラ ゲーム
スポーツ サッカー テニス ゴルフ バスケ プール ジム ヨガ ランニング マラソン トレーニング ダイエット アレルギー
ベジタリアン バス タクシー トラック バイク エレベーター トイレ シャワー ベッド ソファ テーブル ドア カーテン エアコン
ストレス リラックス スケジュール プロジェクト チーム リーダー メンバー クライアント ユーザー システム プログラム
プログラミング コード バグ エラー デバッグ リリース デプロイ コミット ブランチ マージ レビュー コメント ドキュメント
ページ サイト ブログ リンク クリック ボタン メニュー タブ スペース インデント キーボード マウス モニター プリンター
ノート ペン カード キー パスワード アカウント ログイン ログ アドレス メッセージ チャット グループ イベント パーティー
プレゼント クリスマス コンサート ライブ アルバム ピアノ ギター バイオリン ダンス ドラマ アニメ マンガ ニュース
インターネット ネット オンライン リモート オフィス ビル マンション アパート スーパー コンビニ デパート セール サイズ
カラー デザイン シャツ スカート ズボン コート セーター バッグ メガネ スタイル タイプ レベル ルール アイデア イメージ
メリット デメリット チャンス タイミング バランス ポイント テーマ レポート プレゼン セミナー クラス コース レッスン
ボランティア アルバイト バイト サラリーマン ボーナス コスト サービス サポート セキュリティ バックアップ アップデート
インストール ダウンロード バージョン キャッシュ クエリ インデックス テーブル カラム モデル ベクトル メモリ ディスク
クラウド ネットワーク プロトコル コンテナ パッケージ モジュール クラス メソッド パラメータ オプション デフォルト キロ
メートル センチ グラム パーセント ドル ユーロ ポンド ペット ネコ イヌ ウサギ コロナ ワクチン インフルエンザ マスク
キャンセル チェック スタート ストップ ゴール オープン クローズ サンプル リスト メイン サブ トップ ラスト シンプル
ダーク ダークモード モード ライトモード フォント スクリーン タスク リマインダー アラーム カレンダー アジェンダ
ワークフロー コンピューター コンピュータ ソフト ソフトウェア ハードウェア ナッツ ピーナッツ アーモンド グルテン エビ
カニ サーモン マグロ タバコ アルコール ハイキング キャンプ ドライブ ツアー チケット ビザ パスポート スーツケース
プラン ボトル カップ グラス スプーン フォーク ナイフ キッチン リビング ベランダ バルコニー ガス トンネル フォルダ
フォルダー マニュアル
"""
_LOAN_WORDS = frozenset(_LOAN_WORDS_LIST.split())

_CAPITALISED = re.compile(
    r"(?<![A-Za-z0-9_À-ÿ-])[A-ZÀ-ÖØ-ÞĀĆČĐŁŃŚŠŽ][^\W\d_\u3040-\u9fff]*(?:['’-][^\W\d_\u3040-\u9fff]+)*"
)
_WORD = re.compile(r"[^\W\d_\u3040-\u9fff]+(?:['’-][^\W\d_\u3040-\u9fff]+)*")
_ASCII_WORD = re.compile(r"[a-z][a-z'-]*")
_LAST_WORD = re.compile(r"([^\W\d_]+)[.]? ?$")
# "Priya's keys are": hers. "Yoga's great": is.
_OWNED = re.compile(
    r" [^\W\d_]+ (?:is|are|was|were|has|have|had|will|would|comes?|came|starts?|started|ends?|said|wants?)\b"
)
_NEXT_WORD = re.compile(r"['’]?s? ([^\W\d_]+)")
_LAST_WORD_CHARS_MAX = 24
_ABBREVIATIONS_LIST = """
dr mr mrs ms st prof vs g e b z hr fr mme jr sr inc
"""
_ABBREVIATIONS = frozenset(_ABBREVIATIONS_LIST.split())


def language_of(words: set[str]) -> Language:
    """The language of the text these lower-case words are from, by its small words; English when in doubt."""
    german, french, english = (len(words & known) for known in (_GERMAN_WORDS, _FRENCH_WORDS, _ENGLISH_WORDS))
    if german > max(french, english):
        return "de"
    return "fr" if french > max(german, english) else "en"


def words_of(text: str) -> set[str]:
    """The words in small letters, with what `d'Anna` and `Anna's` hold."""
    plain = text.lower()
    if "’" in plain:
        plain = plain.replace("’", "'")
    words = set((_ASCII_WORD if plain.isascii() else _WORD).findall(plain))
    if "'" in plain:
        words.update([part for word in words if "'" in word for part in word.split("'")])
    return words


def find_entity(text: str, words: set[str]) -> str:
    """A name that the text holds, as it was found; "" when there is none. words: those of the text."""
    if found := _by_writing(text):
        return found
    if known := words & _KNOWN or words & _GIVEN_SMALL:
        return min(known)
    is_asian = not text.isascii() and _ASIAN.search(text) is not None
    return _by_capital(text, words, is_asian) or (_in_asian(text) if is_asian else "")


def _by_writing(text: str) -> str:
    if "`" in text and (match := _CODE.search(text)):
        return match[1]
    if ("@" in text or "://" in text or "www." in text) and (match := _ADDRESS.search(text)):
        return match.group()
    if file := _file(text):
        return file
    is_codelike = "_" in text or "()" in text or "::" in text or is_camel_case(text) or _HUMP_OF_CAPITALS.search(text)
    if is_codelike and (match := _IDENTIFIER.search(text)):
        return match.group()
    for match in _INITIALS.finditer(text):
        if match.group().lower() not in _NO_NAMES and not _is_shouted(_line_of(text, match.start())):
            return match.group()
    return ""


def is_camel_case(text: str) -> bool:
    """A capital right behind a small letter, as in camelCase."""
    return _HUMP.search(text) is not None


def _file(text: str) -> str:
    for match in _FILE_END.finditer(text):
        start = match.start()
        while (
            start > 0
            and match.start() - start < _FILE_CHARS_MAX
            and (text[start - 1].isalnum() or text[start - 1] in "_-./~")
        ):
            start -= 1
        if start < match.start() and text[match.start() - 1].isalnum():
            return text[start : match.end()]
    return path.group() if "/" in text and (path := _PATH.search(text)) else ""


def _by_capital(text: str, words: set[str], is_asian: bool) -> str:
    language = language_of(words)
    for match in _CAPITALISED.finditer(text):
        word = match.group().replace("’", "'")
        name = word.removesuffix("'s").lower()
        if len(name) < 2 or word.isupper() or word.lower() in _CAPITAL_NO_NAMES or name in _CAPITAL_NO_NAMES:
            continue
        if name in _KNOWN_BY_CAPITAL or is_asian or _is_name(text, match, name, language):
            return match.group()
    return ""


def _is_name(text: str, match: re.Match[str], name: str, language: Language) -> bool:
    """Whether a capitalised word that no list has is a name, by what stands around it."""
    before = _LAST_WORD.search(text, max(0, match.start() - _LAST_WORD_CHARS_MAX), match.start())
    last = before[1] if before else ""
    if last[:1].isupper() and last.lower() in _TITLES:
        return True
    begins = _begins_sentence(text, match.start(), last)
    follows = _NEXT_WORD.match(text, match.end())
    does = follows is not None and follows[1] in _HUMAN_VERBS and name not in _NO_PERSONS
    if language == "de":
        if last in _GERMAN_TO_PLACES and not begins:
            return name not in _GERMAN_NO_PLACES
        return does and (begins or last in _GERMAN_BEFORE_PERSONS)
    if not begins:
        return not _is_title(_line_of(text, match.start()))
    owns = match.group().endswith(("'s", "’s")) and name not in _NO_OWNERS and name not in _NO_PERSONS
    return does or (owns and _OWNED.match(text, match.end()) is not None)


def _begins_sentence(text: str, start: int, last: str) -> bool:
    """Whether the capital at start may be there for the sentence's sake."""
    at = start - 1
    while at >= 0 and text[at] in " \t([":
        at -= 1
    if at < 0:
        return True
    if text[at] == ".":
        return last.lower() not in _ABBREVIATIONS
    return not (text[at].isalnum() or text[at] in ",;)]%&/+'’")


def _line_of(text: str, at: int) -> str:
    """The line that holds the place; of a very long one, what lies around it."""
    first, last = max(0, at - _LINE_CHARS_MAX), at + _LINE_CHARS_MAX
    start, end = text.rfind("\n", first, at) + 1, text.find("\n", at, last)
    return text[start or first : end if end >= 0 else last]


def _is_title(line: str) -> bool:
    """A line in which every word that matters has a capital."""
    line = line.strip(" #*_\t-")
    if line.endswith((".", "!", "?", ",", ";")):
        return False
    words = _WORD.findall(line)
    if len(words) < 2 or words[0][0].islower() or words[0].lower() in _ORDERS:
        return False
    return not any(word[0].islower() and word not in _SMALL_IN_TITLES for word in words)


def _is_shouted(line: str) -> bool:
    words = _WORD.findall(line)
    return len(words) > 1 and sum(word.isupper() for word in words) > len(words) / 2


def _in_asian(text: str) -> str:
    if match := _ASIAN_KNOWN.search(text) or _ASIAN_NAMED.search(text):
        return match.group()
    return next((word for word in _KATAKANA.findall(text) if word not in _LOAN_WORDS), "")
