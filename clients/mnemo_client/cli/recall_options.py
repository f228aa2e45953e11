"""The options of recall: which memories, in which order, how many. SPEC 7.1

`why`, `context` and others share them. Every start of `mnemo` imports this module."""

from mnemo_client.cli.command_types import flag, option
from mnemo_client.protocol.choices import CUTS, GROUPINGS, MODES, PREFERENCES, RANKERS, SORTS, TIME_READINGS, TRUSTS

OFFSET = option("--offset", help="skip the first N", type=int, default=0, metavar="N")
BUDGET = option("--budget", help="limit of tokens for all results together; 0: no limit", type=int, metavar="N")
DRY = flag("--dry", help="do not count this as a use of the memories found")
USER = option("--user", help="the memories of this user; default: local", metavar="NAME")
SESSION = option("--session", help="only memories of this session", metavar="ID")
CUT = option(
    "--cut", choices=CUTS,
    help="gap: only what is close enough to be an answer (default); none: the best N, however close",
)  # fmt: skip
TIME = option(
    "--time", choices=TIME_READINGS,
    help="auto: a time that the question names ranks what lies in it first (default); off: it is words like others",
)  # fmt: skip
RERANK = (
    flag("--rerank", help="have each result scored against the question, and drop what does not bear on it"),
    flag("--no-rerank", help="never, whatever recall.rerank says"),
)
FILTERS = (
    option("--trust", help="only memories of at least this trust", choices=TRUSTS),
    option("--min-importance", help="only memories of at least this importance, 0 to 1", type=float, metavar="X"),
    option("--min-score", help="only results of at least this score, 0 to 1", type=float, metavar="X"),
    USER,
    option("--agent", help="only memories of this agent", metavar="NAME"),
    option("--run", help="only memories of this run of an agent", metavar="ID"),
    flag("--include-compressed", help="also what a summary has replaced"),
    flag("--include-superseded", help="also what a newer memory has replaced"),
    flag("--include-discarded", help="also what ingestion rejected"),
)
RANKING = (
    option("--sort", help="the order of the results", choices=SORTS),
    option("--ranker", help="how to rank the results", choices=RANKERS),
    option("--mode", help="of the ranker hybrid: both of its parts, or only one", choices=MODES),
    option("--recency-bias", help="of the rankers deterministic and hybrid: the weight of recency, 0 to 1 (0.35)",
           type=float, metavar="X"),
    option("--semantic-weight", help="of the ranker hybrid: the weight of the vectors, 0 to 1 (0.5)", type=float,
           metavar="X"),
    option("--preferences", help="first: preferences before everything else; inline: by their score",
           choices=PREFERENCES),
    option("--group-by", help="one result for each note, its best passage", choices=GROUPINGS),
    CUT,
    TIME,
    *RERANK,
    flag("--expand", help="also search for other phrasings of the question, which the language model writes"),
    flag("--no-expand", help="search for the words of the question alone"),
    flag("--exact", help="compare with every vector instead of those that the index proposes"),
    option("--now", help="rank as if it were this time: 2026-05-01T18:30, or ms since 1970", metavar="TIME"),
)  # fmt: skip
