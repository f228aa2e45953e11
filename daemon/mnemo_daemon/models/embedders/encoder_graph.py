"""A BERT-style sentence encoder as an ONNX graph, built from its safetensors without torch, in float32 or in int8.

Both forms take `ids` (batch, tokens) int32 and give `vectors` (batch, dimensions) float32 of unit length and, to who
asks for it, what the last layer has of each token, `encoder.layer.N.normed` (batch, tokens, dimensions). There is no
attention mask: a run holds texts of one token count only, so nothing is padded, and with the fixed activation scales
of the int8 form no row depends on another. That is what makes a text's vector the same in any company (SPEC 2.3,
adr/0002-embedding-form.md).

The int8 form: weights symmetric per output column, activations by one fixed scale per matrix product, measured once on
CALIBRATION_TEXTS. A few channels of a layer norm are ten times larger than the rest and would take the whole scale, so
the channels going into a product are first evened out and the weights take the inverse (the idea of SmoothQuant, Xiao
et al. 2022, at exponent 0.5).
"""

import contextlib
import hashlib
import importlib
import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx
    import tokenizers

Form = Literal["int8", "float32"]
Array = NDArray[Any]
Floats = NDArray[np.float32]

INT8_MAX = 127
UINT8_MAX = 255
SMOOTHING = 0.5  # exponent; 0 leaves the channels as they are, 1 makes them equal
SCALE_DIGITS = 3  # significant digits kept of a measured scale, so that two machines build the same graph
TOKENS_RANGE = range(8, 8193)
VECTORS = "vectors"  # the output
CONTRIB = "com.microsoft"  # onnxruntime's own operators
FORM_VERSION = 1  # grows when the graph written here would give other vectors
OPSET = 20  # the first with Gelu
IR_VERSION = 10
DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
INT8_COSINE_MIN = 0.98  # to float32; below it the processor's int8 arithmetic cannot be trusted
SAME_COSINE_MIN = 0.999  # of one form of a model to itself on another processor, which differs in the last digits

# Prose, questions, lists, code, numbers, other scripts, noise: what the scales must hold without clipping.
CALIBRATION_TEXTS = (
    "I prefer tea to coffee in the morning.",
    "The meeting with Anna moved to Thursday at 14:30, room 3B.",
    "Where do we keep the backup of the customer database?",
    "def add(a, b):\n    return a + b\n\nfor i in range(10): print(add(i, 2**i))",
    "Die Rechnung vom 3. Mai wurde noch nicht bezahlt.",
    "今天的天气很好，我们去公园散步吧。",
    "SELECT name, count(*) FROM users GROUP BY name HAVING count(*) > 1;",
    "# Deploy\n\n1. Build the image\n2. Push it\n3. Restart the service\n\n| host | port |\n|---|---|\n| db1 | 5432 |",
    "We decided to use PostgreSQL because the team knows it well and the licence is free; the alternative was a "
    "hosted service, which costs about 400 euros a month and would keep our data in another country. The decision was "
    "made on the second of March by Ines, Tom and the two people from operations, after a long talk about backups. If "
    "the load grows beyond what one machine can carry, we look at it again, but nobody expects that before the end of "
    "next year.",
    "ok",
    "3.14159 2024-02-29 -17 1e6 42%",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'name'",
    "Mein Hund heißt Bello, он любит гулять, y come mucho.",
    '{"id": 7, "tags": ["a", "b"], "ok": true, "note": null}',
    "😀 thanks!!! see you tomorrow :-)",
    "zzxqj kkw 8f3a91bc0d",
    '"Maria: Did you see the northern lights? Tom: Yes, in Tromsø, last winter, it was breathtaking!"',
    "?",
    "https://example.com/path?x=1#top",
)


class OnnxSession(Protocol):
    """A loaded graph."""

    def run(self, outputs: list[str] | None, inputs: dict[str, Array]) -> list[Floats]: ...

    def get_inputs(self) -> list[Any]: ...

    def get_outputs(self) -> list[Any]: ...


@dataclass(frozen=True)
class EncoderShape:
    """The dimensions of the encoder in config.json."""

    hidden: int
    heads: int
    layers: int
    epsilon: float
    pooling: Literal["mean", "cls"]
    tokens_max: int


@dataclass(frozen=True)
class Encoder:
    """A BERT encoder's shape and float32 weights, by their names in the file without a leading `bert.`."""

    shape: EncoderShape
    weights: dict[str, Floats]


@dataclass(frozen=True)
class Scales:
    """The quantisation of the input of one matrix product: (x · spread) / step + zero, in 0..255."""

    spread: Floats | None  # (channels,), or None where the channels are left as they are
    step: float
    zero: int


@dataclass(frozen=True)
class PreparedGraph:
    """A graph that is ready to be used."""

    graph: bytes
    form: Form
    numerics: str  # changes whenever the same weights would give other vectors
    exact: bytes  # the float32 graph, which is `graph` where that is the form
    exact_numerics: str
    vectors: list[Floats]  # the float32 vectors of the texts that were asked for
    own_vectors: list[Floats]  # those of the form


def form_prefix(form: Form) -> str:
    """The prefix of `numerics` for a graph that is built today."""
    return f"{form}-{FORM_VERSION}."


def prepare(encoder: Encoder, tokenizer_file: Path, texts: Sequence[str]) -> PreparedGraph:
    """The fastest graph whose vectors this processor computes well enough, and the true vectors of some texts.

    int8 where the vectors have a cosine of INT8_COSINE_MIN or more to float32, those of the texts each and those of
    CALIBRATION_TEXTS in the middle; a processor without VNNI may overflow in int8 products and gets float32.
    ValueError when tokenizer.json or the weights do not fit.
    """
    tokenizer = open_tokenizer(tokenizer_file)
    texts_ids = [tokenizer.encode(text).ids[: encoder.shape.tokens_max] for text in (*texts, *CALIBRATION_TEXTS)]
    if max(map(max, texts_ids)) >= len(encoder.weights["embeddings.word_embeddings.weight"]):
        raise ValueError("the tokenizer knows more tokens than the weights do")
    exact = build_graph(encoder)
    true_vectors = _encode_each(exact, texts_ids)
    scales = measure_scales(encoder, texts_ids[len(texts) :])
    quick = build_graph(encoder, scales)
    quick_vectors = _encode_each(quick, texts_ids)
    cosines = [float(a @ b) for a, b in zip(true_vectors, quick_vectors, strict=True)]
    known = true_vectors[: len(texts)]
    if min([*cosines[: len(texts)], float(np.median(cosines))]) >= INT8_COSINE_MIN:
        numerics = form_prefix("int8") + digest_scales(scales)[:16]
        return PreparedGraph(quick, "int8", numerics, exact, form_prefix("float32"), known, quick_vectors[: len(texts)])
    return PreparedGraph(exact, "float32", form_prefix("float32"), exact, form_prefix("float32"), known, known)


def _encode_each(graph: bytes, texts_ids: list[list[int]]) -> list[Floats]:
    session = open_session(graph)
    return [session.run([VECTORS], {"ids": np.array([ids], np.int32)})[0][0] for ids in texts_ids]


@contextlib.contextmanager
def foreign_errors(kind: type[Exception], what: str) -> Iterator[None]:
    """Turns whatever a library raises inside into kind, with what in front. tokenizers raises the bare class,
    onnxruntime a dozen classes with no common one."""
    try:
        yield
    except Exception as error:
        raise kind(f"{what}: {error}") from error


def open_tokenizer(path: Path) -> "tokenizers.Tokenizer":
    """The tokenizer, cutting nothing off and padding nothing. ValueError when the file is none."""
    import tokenizers

    with foreign_errors(ValueError, f"{path.name} is not a tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_buffer(path.read_bytes())
    tokenizer.no_truncation()  # the file that comes with all-MiniLM-L6-v2 cuts off and pads at 128
    tokenizer.no_padding()
    return tokenizer


def read_encoder(folder: Path) -> Encoder:
    """The encoder in a folder with config.json and model.safetensors. ValueError when it is not a BERT encoder of the
    kind that is understood here, or the file is not whole."""
    shape = _read_shape(folder)
    weights = {name.removeprefix("bert."): w for name, w in _read_safetensors(folder / "model.safetensors").items()}
    missing = [name for name in _weight_names(shape.layers) if name not in weights]
    if missing:
        raise ValueError(f"model.safetensors has no {missing[0]} ({len(missing)} weights are missing)")
    return Encoder(shape, weights)


def build_graph(encoder: Encoder, scales: dict[str, Scales] | None = None) -> bytes:
    """The ONNX file: float32 without scales, int8 with those that `measure_scales` gives."""
    return bytes(_GraphWriter(encoder, scales).model().SerializeToString())


def measure_scales(encoder: Encoder, texts_ids: Iterable[list[int]]) -> dict[str, Scales]:
    """The activation scales of every matrix product, by the name of its input, from a float32 run over the texts."""
    graph = _GraphWriter(encoder, None)
    model = graph.model(taps=True)
    session = open_session(model.SerializeToString())
    taps = graph.product_inputs
    low = {tap: np.zeros(1, np.float32) for tap in taps}
    high = {tap: np.zeros(1, np.float32) for tap in taps}
    for ids in texts_ids:
        values = session.run(taps, {"ids": np.array([ids], np.int32)})
        for tap, value in zip(taps, values, strict=True):
            low[tap] = np.minimum(low[tap], value.min(axis=(0, 1)))
            high[tap] = np.maximum(high[tap], value.max(axis=(0, 1)))
    return {tap: _fit(low[tap], high[tap], spread=tap.endswith(".normed")) for tap in taps}


def digest_scales(scales: dict[str, Scales]) -> str:
    """A hash that changes when any scale does."""
    digest = hashlib.sha256()
    for name, scale in sorted(scales.items()):
        digest.update(f"{name} {scale.step!r} {scale.zero} ".encode())
        digest.update(b"" if scale.spread is None else scale.spread.tobytes())
    return digest.hexdigest()


def open_session(model: bytes | Path) -> OnnxSession:
    """A session whose runs each use the calling thread alone, so that several threads can run it side by side.

    No spinning (it halves the speed under other load), no arena (it would keep its largest run's memory for ever).
    The graph is written as it should run: the larger fusions of onnxruntime make it slower (SkipLayerNormalization
    takes five times as long as Add and LayerNormalization).
    """
    onnxruntime: Any = importlib.import_module("onnxruntime")  # 0.3 s and 40 MB: only where a model is used
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    session._model_bytes = None  # it would be kept as long as the session, which never reads it again
    return cast(OnnxSession, session)


def adapt_graph(path: Path, changes: Mapping[str, Array]) -> bytes:
    """The float32 graph of a file that was written here, with other constants. changes: by the name of a constant, what
    is added to it; of a matrix two factors, NAME.a and NAME.b (low-rank adaptation, Hu and others 2021)."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    for constant in model.graph.initializer:
        name = constant.name
        added = changes[f"{name}.a"] @ changes[f"{name}.b"] if f"{name}.a" in changes else changes.get(name)
        if added is not None:
            constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant) + added, name))
    return bytes(model.SerializeToString())


def open_with_tokens(model: bytes | Path) -> tuple[OnnxSession, str]:
    """A session of an encoder, and the name of the output that has the tokens. ValueError of a file without it."""
    session = open_session(model)
    if len(outputs := session.get_outputs()) < 2:
        raise ValueError(f"{getattr(model, 'name', 'it')} was not written here: it has no output of the tokens")
    return session, str(outputs[1].name)


# Reading ------------------------------------------------------------------------------------------------------------


def _read_shape(folder: Path) -> EncoderShape:
    config = _read_object(folder / "config.json")
    understood = {"model_type": ("bert",), "hidden_act": ("gelu",), "position_embedding_type": ("absolute", None)}
    for key, values in understood.items():
        if config.get(key) not in values:
            raise ValueError(f"config.json says {key} = {config.get(key)!r}; only {values[0]!r} is understood")
    positions = int(config["max_position_embeddings"])
    tokens_max = min(int(_read_optional(folder / "sentence_bert_config.json").get("max_seq_length", 256)), positions)
    if tokens_max not in TOKENS_RANGE:
        raise ValueError(f"a limit of {tokens_max} tokens makes no sense")
    pooling = _read_optional(folder / "1_Pooling" / "config.json")
    return EncoderShape(
        hidden=int(config["hidden_size"]), heads=int(config["num_attention_heads"]),
        layers=int(config["num_hidden_layers"]), epsilon=float(config["layer_norm_eps"]),
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean", tokens_max=tokens_max,
    )  # fmt: skip


def _read_optional(path: Path) -> dict[str, Any]:
    return _read_object(path) if path.exists() else {}


def _read_object(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text("utf-8"))
    if isinstance(value, dict):
        return value
    raise ValueError(f"{path.name} is not a JSON object")


def _read_safetensors(path: Path) -> dict[str, Floats]:
    """Every tensor of the file as float32. The layout: length of the header (8 bytes), header (JSON), data."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        header_end = 8 + int.from_bytes(data[:8], "little")
        if header_end > len(data):
            raise ValueError(f"{path.name} is cut off or not a safetensors file")
        header = json.loads(data[8:header_end])
        return {
            name: _read_tensor(data, header_end, name, entry)
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] in ("F32", "F16")
        }


def _read_tensor(data: mmap.mmap, start: int, name: str, entry: dict[str, Any]) -> Floats:
    begin, end = entry["data_offsets"]
    raw = data[start + begin : start + end]
    dtype = np.dtype(DTYPES[entry["dtype"]])
    if len(raw) != dtype.itemsize * int(np.prod(entry["shape"])):
        raise ValueError(f"the weights end in the middle of {name}")
    return np.frombuffer(raw, dtype).reshape(entry["shape"]).astype(np.float32)


def _layer_name(layer: int) -> str:
    return f"encoder.layer.{layer}"


def _weight_names(layers: int) -> list[str]:
    parts = ["attention.self.query", "attention.self.key", "attention.self.value"]
    parts += ["attention.output.dense", "attention.output.LayerNorm"]
    parts += ["intermediate.dense", "output.dense", "output.LayerNorm"]
    names = [f"embeddings.{t}_embeddings.weight" for t in ("word", "position", "token_type")]
    names += [f"embeddings.LayerNorm.{kind}" for kind in ("weight", "bias")]
    return names + [f"{_layer_name(i)}.{p}.{kind}" for i in range(layers) for p in parts for kind in ("weight", "bias")]


# Quantising ---------------------------------------------------------------------------------------------------------


def _fit(low: Floats, high: Floats, *, spread: bool) -> Scales:
    """The scales that hold a product's input, whose channels lie in low..high."""
    even: Floats | None = None
    if spread:
        size = np.maximum(-low, high)
        even = _round_digits(np.minimum(1.0, (np.median(size) / np.maximum(size, 1e-3)) ** SMOOTHING))
        low, high = low * even, high * even
    bottom, top = min(float(low.min()), 0.0), max(float(high.max()), 1e-6)
    step = float(_round_digits(np.array((top - bottom) / UINT8_MAX)))
    return Scales(even, step, round(-bottom / step))


def _round_digits(values: Array) -> Floats:
    """values to SCALE_DIGITS significant digits."""
    magnitude = 10.0 ** (SCALE_DIGITS - 1 - np.floor(np.log10(np.abs(values))))
    return np.asarray(np.round(values * magnitude) / magnitude, np.float32)


def _quantise_columns(weight: Floats) -> tuple[NDArray[np.int8], Floats]:
    """weight (inputs, outputs) as int8 and the step of each column."""
    steps = np.maximum(np.abs(weight).max(axis=0), 1e-12) / INT8_MAX
    return np.round(weight / steps).astype(np.int8), steps.astype(np.float32)


# The graph ----------------------------------------------------------------------------------------------------------


class _GraphWriter:
    """Writes one encoder as ONNX nodes, operator by operator."""

    def __init__(self, encoder: Encoder, scales: dict[str, Scales] | None) -> None:
        self.shape = encoder.shape
        self.weights = encoder.weights
        self.scales = scales
        self.product_inputs: list[str] = []  # names of what goes into matrix products, in order
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        hidden = self._embeddings()
        for layer in range(self.shape.layers):
            hidden = self._layer(_layer_name(layer), hidden)
        if self.shape.pooling == "cls":
            pooled = self._node("Gather", [hidden, self._constant(np.array(0, np.int64))], axis=1)
        else:
            # The sum has the direction of the mean, and only the direction is kept. As a product with ones: ReduceSum
            # adds up in another order when there is one text than when there are several.
            ones = self._first_tokens(np.ones((1, self.shape.tokens_max), np.float32), axis=1)
            pooled = self._node("Squeeze", [self._node("MatMul", [ones, hidden]), self._numbers(1)])
        self._node("LpNormalization", [pooled], output=VECTORS, axis=-1, p=2)

    def model(self, *, taps: bool = False) -> "onnx.ModelProto":
        """The whole model; with taps, the inputs of all matrix products are outputs as well."""
        from onnx import TensorProto, helper

        width, last = self.shape.hidden, f"{_layer_name(self.shape.layers - 1)}.normed"
        outputs = [
            helper.make_tensor_value_info(VECTORS, TensorProto.FLOAT, ["batch", width]),
            helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", "tokens", width]),
        ]
        if taps:
            outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.product_inputs]
        ids = helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "tokens"])
        graph = helper.make_graph(self._nodes, "encoder", [ids], outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def _embeddings(self) -> str:
        words = self.weights["embeddings.word_embeddings.weight"]
        if self.scales is None:
            found = self._node("Gather", [self._constant(words), "ids"])
        else:
            table, steps = _quantise_columns(words.T)
            rows = self._node("Gather", [self._constant(table.T), "ids"])
            step = self._node("Gather", [self._constant(steps[:, None]), "ids"])
            found = self._node("Mul", [self._node("Cast", [rows], to=1), step])  # 1: float32
        positions = self.weights["embeddings.position_embeddings.weight"][: self.shape.tokens_max]
        positions = positions + self.weights["embeddings.token_type_embeddings.weight"][0]
        placed = self._node("Add", [found, self._first_tokens(positions, axis=0)])
        return self._norm("embeddings.LayerNorm", placed, output="embeddings.normed")

    def _layer(self, name: str, hidden: str) -> str:
        query, key, value = self._products(
            hidden, [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        )
        heads = self.shape.heads
        context = self._node(
            "MultiHeadAttention", [query, key, value], output=f"{name}.context", domain=CONTRIB, num_heads=heads
        )
        (attended,) = self._products(context, [f"{name}.attention.output.dense"])
        attended = self._node("Add", [attended, hidden])
        attended = self._norm(f"{name}.attention.output.LayerNorm", attended, output=f"{name}.attention.normed")
        (inner,) = self._products(attended, [f"{name}.intermediate.dense"])
        inner = self._node("Gelu", [inner], output=f"{name}.inner")
        (outer,) = self._products(inner, [f"{name}.output.dense"])
        outer = self._node("Add", [outer, attended])
        return self._norm(f"{name}.output.LayerNorm", outer, output=f"{name}.normed")

    def _norm(self, name: str, value: str, *, output: str) -> str:
        inputs = [value, *(self._constant(self.weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))]
        return self._node("LayerNormalization", inputs, output=output, axis=-1, epsilon=self.shape.epsilon)

    def _products(self, value: str, names: list[str]) -> list[str]:
        """value times each named weight plus its bias."""
        self.product_inputs.append(value)
        pairs = [(self.weights[f"{name}.weight"].T, self.weights[f"{name}.bias"]) for name in names]
        if self.scales is None:
            products = [self._node("MatMul", [value, self._constant(weight)]) for weight, _ in pairs]
            return [self._node("Add", [p, self._constant(b)]) for p, (_, b) in zip(products, pairs, strict=True)]
        scales = self.scales[value]
        step = self._constant(np.array(scales.step, np.float32))
        zero = self._constant(np.array(scales.zero, np.uint8))
        if scales.spread is not None:
            value = self._node("Mul", [value, self._constant(scales.spread)])
            pairs = [(weight / scales.spread[:, None], bias) for weight, bias in pairs]
        quantised = self._node("QuantizeLinear", [value, step, zero])
        outputs = []
        for weight, bias in pairs:
            columns, steps = _quantise_columns(weight)
            zeros = self._constant(np.zeros(len(bias), np.int8))
            inputs = [quantised, self._constant(columns), step, self._constant(steps), zero, zeros]
            inputs.append(self._constant(bias))
            outputs.append(self._node("MatMulIntegerToFloat", inputs, domain=CONTRIB))
        return outputs

    def _first_tokens(self, table: Array, *, axis: int) -> str:
        """As many rows or columns of the table as there are tokens."""
        tokens = self._node("Shape", ["ids"], start=1, end=2)
        return self._node("Slice", [self._constant(table), self._numbers(0), tokens, self._numbers(axis)])

    def _numbers(self, *numbers: int) -> str:
        return self._constant(np.array(numbers, np.int64))

    def _constant(self, value: Array) -> str:
        from onnx import numpy_helper

        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def _node(self, operator: str, inputs: list[str], *, output: str = "", domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output
