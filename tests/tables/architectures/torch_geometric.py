"""Layers, aggregations, norms, poolings and models of torch_geometric, on graphs of any nodes and edges."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from tests.tables.architectures.listed import at, by_name, normal, subject_of
from tests.tables.architectures.subject import Call, Sizes, Subject

GRAPHS = at("nodes edges", (7, 12), (5, 21), (9, 4))
SIMPLE = ("Mean", "Sum", "Max", "Min", "Mul", "Var", "Std", "Median")
WEIGHT = lambda n, e: normal(e).sigmoid()  # noqa: E731
ATTRIBUTE = lambda n, e: normal(e, 4)  # noqa: E731
META = (["a", "b"], [("a", "to", "b"), ("b", "to", "a")])


@attrs.frozen
class Row:
    """A layer: its name, its kind, how it is built by `torch_geometric.nn`, what it is called with, and the sizes."""

    name: str
    kind: str
    made: Callable[..., Any]
    call: Callable[..., Call]
    sizes: Sequence[Sizes] = GRAPHS


def subjects() -> Mapping[str, Subject]:
    """Each by its name. Raises ModuleNotFoundError without torch_geometric."""
    library = importlib.import_module("torch_geometric.nn")
    return by_name(
        [
            subject_of("torch_geometric", row.kind, row.name, lambda row=row: row.made(library), row.call, row.sizes)
            for row in ROWS
        ]
    )


def edges(nodes: int, count: int, seed: int = 0) -> torch.Tensor:
    """Edges between nodes, some of them more than once, some from a node to itself."""
    generator = torch.Generator().manual_seed(nodes * 31 + count + seed)
    return torch.randint(nodes, (2, count), generator=generator)


def groups(nodes: int) -> torch.Tensor:
    """Which of three graphs each node is of."""
    return (torch.arange(nodes) * 3) // nodes


def adj(nodes: int) -> torch.Tensor:
    """A symmetric matrix of zeros and ones."""
    found = (normal(nodes, nodes, seed=9) > 0).float()
    return ((found + found.T) > 0).float()


def mlp(inside: int = 8, outside: int = 8) -> torch.nn.Module:
    """A small network of one layer."""
    return torch.nn.Sequential(torch.nn.Linear(inside, outside), torch.nn.ReLU())


class Typed(torch.nn.Module):
    """A layer of nodes of two types, called with tensors."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, a: torch.Tensor, b: torch.Tensor, ab: torch.Tensor, ba: torch.Tensor) -> Any:
        return self.layer({"a": a, "b": b}, {("a", "to", "b"): ab, ("b", "to", "a"): ba})


class Pooled(torch.nn.Module):
    """A function of nodes and of which graph each is of, or a layer of these and of edges."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, batch: torch.Tensor, edge_index: torch.Tensor | None = None) -> Any:
        return self.function(x, batch) if edge_index is None else self.function(x, edge_index, batch=batch)


def conv(name: str, made: Callable[..., Any], **more: Callable[[int, int], Any]) -> Row:
    """The row of a layer of nodes and edges, and what else it is called with."""

    def call(n: int, e: int) -> Call:
        return {"x": normal(n, 8), "edge_index": edges(n, e), **{key: each(n, e) for key, each in more.items()}}

    return Row(name, "model" if name.startswith("model") else "layer", made, call)


def aggregation(name: str, made: Callable[..., Any]) -> Row:
    """The row of an aggregation of three groups of nodes."""
    return Row(name, "aggregation", made, lambda n, e: {"x": normal(n, 8), "index": groups(n), "dim_size": 3})


def norm(name: str, made: Callable[..., Any], grouped: bool = True) -> Row:
    """The row of a norm of nodes, of three graphs where it is `grouped`."""
    more: Callable[[int], Call] = lambda n: {"batch": groups(n), "batch_size": 3} if grouped else {}  # noqa: E731
    return Row(name, "norm", made, lambda n, e: {"x": normal(n, 8), **more(n)})


def pooling(name: str, made: Callable[..., Any]) -> Row:
    """The row of a layer that leaves out nodes of three graphs."""
    return Row(
        name,
        "pooling",
        lambda g: Pooled(made(g)),
        lambda n, e: {"x": normal(n, 8), "batch": groups(n), "edge_index": edges(n, e)},
    )


def dense(name: str, made: Callable[..., Any]) -> Row:
    """The row of a layer of two graphs as matrices."""
    return Row(
        name, "dense layer", made, lambda n, e: {"x": normal(2, n, 8), "adj": torch.stack([adj(n), adj(n).flip(0)])}
    )


def typed(n: int, e: int) -> Call:
    """Nodes of two types, and the edges between them."""
    return {"a": normal(n, 8), "b": normal(n + 2, 8), "ab": edges(n, e), "ba": edges(n, e, 3)}


def triples(n: int, e: int) -> Call:
    """Relations between things."""
    number = torch.arange(e)
    return {"head_index": number % 9, "rel_type": number % 3, "tail_index": number * 2 % 9}


ROWS: tuple[Row, ...] = (
    conv("GCNConv", lambda g: g.GCNConv(8, 6)),
    conv("GCNConv_weight", lambda g: g.GCNConv(8, 6), edge_weight=WEIGHT),
    conv("ChebConv", lambda g: g.ChebConv(8, 6, 3)),
    conv("SAGEConv", lambda g: g.SAGEConv(8, 6)),
    conv("SAGEConv_max", lambda g: g.SAGEConv(8, 6, aggr="max")),
    conv("SAGEConv_lstm", lambda g: g.SAGEConv(8, 6, aggr="lstm")),
    conv("GraphConv", lambda g: g.GraphConv(8, 6)),
    conv("GatedGraphConv", lambda g: g.GatedGraphConv(8, 2)),
    conv("ResGatedGraphConv", lambda g: g.ResGatedGraphConv(8, 6)),
    conv("GATConv", lambda g: g.GATConv(8, 6, heads=2)),
    conv("GATConv_edge", lambda g: g.GATConv(8, 6, heads=2, edge_dim=4), edge_attr=ATTRIBUTE),
    conv("GATv2Conv", lambda g: g.GATv2Conv(8, 6, heads=2)),
    conv("TransformerConv", lambda g: g.TransformerConv(8, 6, heads=2)),
    conv("AGNNConv", lambda g: g.AGNNConv()),
    conv("TAGConv", lambda g: g.TAGConv(8, 6)),
    conv("GINConv", lambda g: g.GINConv(mlp())),
    conv("GINEConv", lambda g: g.GINEConv(mlp(), edge_dim=4), edge_attr=ATTRIBUTE),
    conv("ARMAConv", lambda g: g.ARMAConv(8, 6)),
    conv("SGConv", lambda g: g.SGConv(8, 6, K=2)),
    conv("SSGConv", lambda g: g.SSGConv(8, 6, alpha=0.1, K=2)),
    conv("APPNP", lambda g: g.APPNP(3, 0.1)),
    conv("MFConv", lambda g: g.MFConv(8, 6)),
    conv("RGCNConv", lambda g: g.RGCNConv(8, 6, 3), edge_type=lambda n, e: torch.arange(e) % 3),
    conv("FastRGCNConv", lambda g: g.FastRGCNConv(8, 6, 3), edge_type=lambda n, e: torch.arange(e) % 3),
    conv("RGATConv", lambda g: g.RGATConv(8, 6, 3), edge_type=lambda n, e: torch.arange(e) % 3),
    Row(
        "SignedConv",
        "layer",
        lambda g: g.SignedConv(8, 6, first_aggr=True),
        lambda n, e: {"x": normal(n, 8), "pos_edge_index": edges(n, e), "neg_edge_index": edges(n, e, 1)},
    ),
    Row("DNAConv", "layer", lambda g: g.DNAConv(8), lambda n, e: {"x": normal(n, 3, 8), "edge_index": edges(n, e)}),
    Row(
        "PointNetConv",
        "layer",
        lambda g: g.PointNetConv(mlp(11), mlp()),
        lambda n, e: {"x": normal(n, 8), "pos": normal(n, 3), "edge_index": edges(n, e)},
    ),
    Row(
        "GMMConv",
        "layer",
        lambda g: g.GMMConv(8, 6, dim=4, kernel_size=3),
        lambda n, e: {"x": normal(n, 8), "edge_index": edges(n, e), "edge_attr": normal(e, 4)},
    ),
    conv("NNConv", lambda g: g.NNConv(8, 6, torch.nn.Linear(4, 48)), edge_attr=ATTRIBUTE),
    conv("CGConv", lambda g: g.CGConv(8, dim=4), edge_attr=ATTRIBUTE),
    conv("EdgeConv", lambda g: g.EdgeConv(mlp(16))),
    conv("FeaStConv", lambda g: g.FeaStConv(8, 6, 2)),
    Row(
        "HypergraphConv",
        "layer",
        lambda g: g.HypergraphConv(8, 6),
        lambda n, e: {"x": normal(n, 8), "hyperedge_index": edges(n, e)},
    ),
    conv("LEConv", lambda g: g.LEConv(8, 6)),
    conv("ClusterGCNConv", lambda g: g.ClusterGCNConv(8, 6)),
    conv("GENConv", lambda g: g.GENConv(8, 6)),
    conv("GCN2Conv", lambda g: g.GCN2Conv(8, 0.1), x_0=lambda n, e: normal(n, 8, seed=5)),
    conv("FiLMConv", lambda g: g.FiLMConv(8, 6)),
    conv("SuperGATConv", lambda g: g.SuperGATConv(8, 6)),
    conv("FAConv", lambda g: g.FAConv(8), x_0=lambda n, e: normal(n, 8, seed=5)),
    conv("EGConv", lambda g: g.EGConv(8, 8)),
    conv("PDNConv", lambda g: g.PDNConv(8, 6, 4, 5), edge_attr=ATTRIBUTE),
    conv("GeneralConv", lambda g: g.GeneralConv(8, 6)),
    conv("LGConv", lambda g: g.LGConv()),
    conv("WLConvContinuous", lambda g: g.WLConvContinuous()),
    conv("GPSConv", lambda g: g.GPSConv(8, g.GCNConv(8, 8), heads=2)),
    conv("AntiSymmetricConv", lambda g: g.AntiSymmetricConv(8)),
    conv("DirGNNConv", lambda g: g.DirGNNConv(g.GCNConv(8, 6))),
    conv("MixHopConv", lambda g: g.MixHopConv(8, 6)),
    conv(
        "PNAConv",
        lambda g: g.PNAConv(8, 6, ["mean", "max", "std"], ["identity", "amplification"], torch.tensor([1, 2, 3, 2])),
    ),
    conv(
        "HEATConv",
        lambda g: g.HEATConv(8, 6, 2, 3, 4, 4, 4),
        node_type=lambda n, e: torch.arange(n) % 2,
        edge_type=lambda n, e: torch.arange(e) % 3,
        edge_attr=ATTRIBUTE,
    ),
    Row(
        "PPFConv",
        "layer",
        lambda g: g.PPFConv(mlp(12), mlp()),
        lambda n, e: {
            "x": normal(n, 8),
            "pos": normal(n, 3),
            "normal": normal(n, 3, seed=3),
            "edge_index": edges(n, e),
        },
    ),
    Row(
        "PointTransformerConv",
        "layer",
        lambda g: g.PointTransformerConv(8, 6),
        lambda n, e: {"x": normal(n, 8), "pos": normal(n, 3), "edge_index": edges(n, e)},
    ),
    Row(
        "PointGNNConv",
        "layer",
        lambda g: g.PointGNNConv(mlp(8, 3), mlp(11, 8), mlp(8, 8)),
        lambda n, e: {"x": normal(n, 8), "pos": normal(n, 3), "edge_index": edges(n, e)},
    ),
    Row("HGTConv", "layer", lambda g: Typed(g.HGTConv(8, 8, META, heads=2)), typed),
    Row("HANConv", "layer", lambda g: Typed(g.HANConv(8, 8, META, heads=2)), typed),
    Row(
        "HeteroConv",
        "layer",
        lambda g: Typed(
            g.HeteroConv({("a", "to", "b"): g.SAGEConv((8, 8), 6), ("b", "to", "a"): g.SAGEConv((8, 8), 6)})
        ),
        typed,
    ),
    aggregation("SoftmaxAggregation", lambda g: g.SoftmaxAggregation(learn=True)),
    aggregation("PowerMeanAggregation", lambda g: g.PowerMeanAggregation(learn=True)),
    aggregation("LSTMAggregation", lambda g: g.LSTMAggregation(8, 6)),
    aggregation("GRUAggregation", lambda g: g.GRUAggregation(8, 6)),
    aggregation("Set2Set", lambda g: g.Set2Set(8, 2)),
    aggregation("SortAggregation", lambda g: g.SortAggregation(3)),
    aggregation("AttentionalAggregation", lambda g: g.AttentionalAggregation(torch.nn.Linear(8, 1))),
    aggregation("EquilibriumAggregation", lambda g: g.EquilibriumAggregation(8, 6, [4], 1)),
    aggregation("DeepSetsAggregation", lambda g: g.DeepSetsAggregation(mlp(), mlp())),
    aggregation("SetTransformerAggregation", lambda g: g.SetTransformerAggregation(8, heads=2)),
    aggregation("GraphMultisetTransformer", lambda g: g.GraphMultisetTransformer(8, 3)),
    aggregation("MultiAggregation", lambda g: g.MultiAggregation(["mean", "max", "std"])),
    aggregation(
        "DegreeScaler",
        lambda g: g.DegreeScalerAggregation(
            ["mean", "max"], ["identity", "amplification", "attenuation"], torch.tensor([1, 2, 3])
        ),
    ),
    aggregation("PatchTransformerAggregation", lambda g: g.PatchTransformerAggregation(8, 8, 2, 4, 1, heads=2)),
    aggregation("QuantileAggregation", lambda g: g.QuantileAggregation([0.25, 0.5])),
    aggregation("VariancePreservingAggregation", lambda g: g.VariancePreservingAggregation()),
    norm("BatchNorm", lambda g: g.BatchNorm(8), grouped=False),
    norm("InstanceNorm", lambda g: g.InstanceNorm(8)),
    norm("LayerNorm_graph", lambda g: g.LayerNorm(8)),
    norm("LayerNorm_node", lambda g: g.LayerNorm(8, mode="node")),
    norm("GraphNorm", lambda g: g.GraphNorm(8)),
    norm("GraphSizeNorm", lambda g: g.GraphSizeNorm()),
    norm("PairNorm", lambda g: g.PairNorm()),
    norm("MeanSubtractionNorm", lambda g: g.MeanSubtractionNorm(), grouped=False),
    norm("DiffGroupNorm", lambda g: g.DiffGroupNorm(8, 3), grouped=False),
    Row(
        "HeteroBatchNorm",
        "layer",
        lambda g: g.HeteroBatchNorm(8, 3),
        lambda n, e: {"x": normal(n, 8), "type_vec": torch.arange(n) % 3},
    ),
    pooling("TopKPooling", lambda g: g.TopKPooling(8)),
    pooling("SAGPooling", lambda g: g.SAGPooling(8)),
    pooling("ASAPooling", lambda g: g.ASAPooling(8)),
    pooling("EdgePooling", lambda g: g.EdgePooling(8)),
    pooling("ClusterPooling", lambda g: g.ClusterPooling(8)),
    Row(
        "MemPooling", "layer", lambda g: g.MemPooling(8, 6, 2, 2), lambda n, e: {"x": normal(n, 8), "batch": groups(n)}
    ),
    dense("DenseGCNConv", lambda g: g.DenseGCNConv(8, 6)),
    dense("DenseSAGEConv", lambda g: g.DenseSAGEConv(8, 6)),
    dense("DenseGINConv", lambda g: g.DenseGINConv(mlp())),
    dense("DenseGraphConv", lambda g: g.DenseGraphConv(8, 6)),
    dense("DenseGATConv", lambda g: g.DenseGATConv(8, 6, heads=2)),
    Row(
        "DMoNPooling",
        "layer",
        lambda g: g.DMoNPooling([8, 8], 3),
        lambda n, e: {"x": normal(2, n, 8), "adj": torch.stack([adj(n), adj(n).flip(0)])},
    ),
    conv(
        "model_PNA",
        lambda g: g.models.PNA(
            8, 16, 2, 4, aggregators=["mean", "max"], scalers=["identity", "amplification"], deg=torch.tensor([1, 2, 3])
        ),
    ),
    conv("model_GraphUNet", lambda g: g.models.GraphUNet(8, 16, 4, 2)),
    conv("model_ARMA", lambda g: g.ARMAConv(8, 4, num_stacks=2, num_layers=2)),
    conv("model_JK", lambda g: g.models.GCN(8, 16, 3, 4, jk="lstm")),
    Row(
        "model_AttentiveFP",
        "model",
        lambda g: g.models.AttentiveFP(8, 16, 4, 4, 2, 2),
        lambda n, e: {"x": normal(n, 8), "edge_index": edges(n, e), "edge_attr": normal(e, 4), "batch": groups(n)},
    ),
    Row("model_MLP", "model", lambda g: g.models.MLP([8, 16, 4]), lambda n, e: {"x": normal(n, 8)}),
    Row(
        "model_LINKX",
        "model",
        lambda g: g.models.LINKX(12, 8, 16, 4, 1),
        lambda e: {"x": normal(12, 8), "edge_index": edges(12, e)},
        at("edges", (20,), (31,), (5,)),
    ),
    *(
        aggregation(f"{name}Aggregation", lambda g, name=name: getattr(g.aggr, f"{name}Aggregation")())
        for name in SIMPLE
    ),
    *(
        Row(
            name,
            "pooling",
            lambda g, name=name: Pooled(getattr(g, name)),
            lambda n, e: {"x": normal(n, 8), "batch": groups(n)},
        )
        for name in ("global_add_pool", "global_mean_pool", "global_max_pool")
    ),
    *(
        conv(f"model_{name}", lambda g, name=name: getattr(g.models, name)(8, 16, 2, 4))
        for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")
    ),
    *(
        Row(f"kge_{name}", "model", lambda g, name=name: getattr(g, name)(9, 3, 8), triples)
        for name in ("TransE", "DistMult", "ComplEx", "RotatE")
    ),
)
"""Each with how it is built, and what it is called with."""
