"""Ten systems that saw data, each audited by coins: what a coin decides, what a score is, what was proven of which ceiling.

python examples/any_system.py
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import audit

CANARIES = 200


@dataclass(frozen=True, kw_only=True)
class System:
    """A system, with what is in its data by coins; `coin` and `score_is` say it in words."""

    coin: str
    score_is: str
    data: Any
    canaries: Any
    train: Callable[[Any, int], Any]
    score: Callable[..., Any]
    epsilon: float
    delta: float = 1e-5

    def check(self, seed: int = 0) -> Any:
        """Hold the system against its claim in one training."""
        claim = {"epsilon": self.epsilon, "delta": self.delta}
        return audit.check_training(self.train, self.data, self.canaries, score=self.score, seed=seed, **claim)


def table_generator() -> System:
    """A kernel density estimate that releases 2,000 synthetic rows."""

    def train(rows: Any, seed: int) -> Any:
        draw = np.random.default_rng(seed)
        return rows[draw.integers(len(rows), size=2000)] + draw.normal(0, 0.05, (2000, rows.shape[1]))

    def score(synthetic: Any, canaries: Any) -> Any:
        return -((canaries[:, None] - synthetic) ** 2).sum(axis=2).min(axis=1)

    draw = np.random.default_rng(1)
    coin, score_is = "a row is in the table", "minus the distance to the closest synthetic row"
    data, canaries = draw.normal(size=(300, 6)), 2 * draw.normal(size=(CANARIES, 6))
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=1.0)


def text_generator() -> System:
    """A character model of order 5 that writes 60,000 characters."""

    def train(texts: Any, seed: int) -> str:
        draw, follows = np.random.default_rng(seed), defaultdict(list)
        for text in texts:
            for at in range(5, len(text)):
                follows[text[at - 5 : at]].append(text[at])
        starts, written = [text[:5] for text in texts], []
        while len(written) < 1500:
            line = starts[draw.integers(len(starts))]
            while len(line) < 40 and (choices := follows.get(line[-5:])):
                line += choices[draw.integers(len(choices))]
            written.append(line)
        return "\n".join(written)

    def score(written: str, canaries: Any) -> Any:
        return [float(sum(text[at : at + 8] in written for at in range(len(text) - 8))) for text in canaries]

    draw = np.random.default_rng(2)
    data = [f"dear {name}, thank you for your order" for name in ["ann", "bob", "eve", "kim", "lee", "max", "pat", "sue"] * 20]
    canaries = [f"the code of door {draw.integers(10**6):06d} is {draw.integers(10**6):06d}" for _ in range(CANARIES)]
    coin, score_is = "a text is in the corpus", "how many of its 8-grams are written"
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=1.0)


def diffusion_model() -> System:
    """The denoiser that a diffusion model of unlimited size converges to: a softmax over its training points."""

    def train(points: Any, seed: int) -> Callable[[Any, float], Any]:
        def denoise(noisy: Any, sigma: float) -> Any:
            logits = -((noisy[:, None] - points) ** 2).sum(axis=2) / (2 * sigma**2)
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            return weights @ points / weights.sum(axis=1, keepdims=True)

        return denoise

    def score(denoise: Any, canaries: Any) -> Any:
        noise = np.random.default_rng(0).normal(size=canaries.shape)
        return -sum(((denoise(canaries + sigma * noise, sigma) - canaries) ** 2).sum(axis=1) for sigma in (0.2, 0.5, 1.0))

    draw = np.random.default_rng(3)
    coin, score_is = "an image is in the training set", "minus the denoising error at three noise levels"
    data, canaries = draw.normal(size=(300, 16)), draw.normal(size=(CANARIES, 16))
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=1.0)


def retrieval_index() -> System:
    """An index of documents that answers a query with the best similarity, as a RAG system's retriever does."""

    def train(documents: Any, seed: int) -> list[set[str]]:
        return [set(document.split()) for document in documents]

    def score(index: Any, canaries: Any) -> Any:
        queries = [set(document.split()[::2]) for document in canaries]  # half of its words
        return [max(len(query & words) / len(query | words) for words in index) for query in queries]

    draw = np.random.default_rng(4)
    texts = [" ".join(f"w{word}" for word in draw.integers(300, size=14)) for _ in range(100 + CANARIES)]
    coin, score_is = "a document is in the index", "best similarity to half of its words"
    data, canaries = texts[:100], texts[100:]
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=1.0)


def recommender() -> System:
    """Recommendations from items that were bought together; a record is a user with a whole history."""

    def train(histories: Any, seed: int) -> Any:
        together = np.zeros((400, 400))
        for items in histories:
            together[np.ix_(items, items)] += 1
        return together / np.sqrt(np.outer(together.diagonal() + 1, together.diagonal() + 1))

    def score(likeness: Any, canaries: Any) -> Any:
        return [np.median(likeness[np.ix_(items, items)][~np.eye(len(items), dtype=bool)]) for items in canaries]

    draw = np.random.default_rng(5)
    histories = [draw.choice(400, size=8, replace=False).tolist() for _ in range(150 + CANARIES)]
    coin, score_is = "a user with a history of 8 items", "median likeness of the items to each other"
    data, canaries = histories[:150], histories[150:]
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=1.0)


def knn_service() -> System:
    """A service that names the majority of the 3 nearest labels; canaries carry random labels."""

    def train(records: Any, seed: int) -> Callable[[Any], Any]:
        inputs, labels = records

        def answer(queries: Any) -> Any:
            nearest = np.argsort(((queries[:, None] - inputs) ** 2).sum(axis=2), axis=1)[:, :3]
            return labels[nearest].mean(axis=1) > 0.5

        return answer

    def score(answer: Any, inputs: Any, labels: Any) -> Any:
        return (answer(inputs) == labels).astype(float)

    draw = np.random.default_rng(6)
    inputs, labels = draw.normal(size=(300 + 400, 5)), draw.integers(2, size=700)
    data, canaries = (inputs[:300], labels[:300]), (inputs[300:], labels[300:])
    coin, score_is = "a wrongly labelled record", "whether the service names its label"
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=0.1)


def pate() -> System:
    """Twenty teachers on disjoint parts vote with Laplace noise: 4 answers are released, each with epsilon 1/2."""

    def train(records: Any, seed: int) -> Any:
        (inputs, labels), draw = records, np.random.default_rng(seed)
        parts = (np.abs(inputs[:, 0]) * 1e6).astype(int) % 20  # by the record itself: no other record moves it
        votes = np.zeros((4, 2))
        for part in range(20):
            own = parts == part
            for query in range(4 * own.any()):
                closest = ((inputs[own] - QUERIES[query]) ** 2).sum(axis=1).argmin()
                votes[query, labels[own][closest]] += 1
        return (votes + draw.laplace(0, 4.0, votes.shape)).argmax(axis=1)  # one record moves two votes by 1

    def score(answers: Any, inputs: Any, labels: Any) -> Any:
        nearness = np.exp(-((inputs[:, None] - QUERIES) ** 2).sum(axis=2) / 4)
        return (nearness * np.where(answers == labels[:, None], 1, -1)).sum(axis=1)

    draw = np.random.default_rng(7)
    inputs, labels = draw.normal(size=(200 + CANARIES, 3)), draw.integers(2, size=200 + CANARIES)
    data, canaries = (inputs[:200], labels[:200]), (inputs[200:], labels[200:])
    coin, score_is = "a record of one teacher", "agreement of the answers with its label, by nearness"
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=2.0)


QUERIES = np.random.default_rng(70).normal(size=(4, 3))


def group_by() -> System:
    """SELECT city, COUNT(*) GROUP BY city with Laplace noise for epsilon 2: cities of one person are released as well."""

    def train(rows: Any, seed: int) -> dict[str, float]:
        draw = np.random.default_rng(seed)
        return {city: count + draw.laplace(0, 0.5) for city, count in Counter(rows).items()}  # no threshold

    def score(counts: Any, canaries: Any) -> Any:
        return [float(city in counts) for city in canaries]

    data, canaries = ["Paris", "Lima"] * 100, [f"hamlet {place}" for place in range(CANARIES)]
    coin, score_is = "a person from a city of one", "whether the city is listed"
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=2.0)


def embedding_model() -> System:
    """Word vectors from co-occurrence and a singular value decomposition; a record is a sentence."""

    def train(sentences: Any, seed: int) -> Any:
        counts = np.zeros((500, 500))
        for words in sentences:
            counts[np.ix_(words, words)] += 1
        left, values, _ = np.linalg.svd(np.log1p(counts), hermitian=True)
        vectors = left[:, :60] * values[:60]
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def score(vectors: Any, canaries: Any) -> Any:
        return [float((vectors[words] @ vectors[words].T).sum()) for words in canaries]

    draw = np.random.default_rng(8)
    sentences = [draw.choice(500, size=6, replace=False).tolist() for _ in range(100 + CANARIES)]
    coin, score_is = "a sentence is in the corpus", "cosines between its words"
    data, canaries = sentences[:100], sentences[100:]
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=1.0)


def federated_analytics() -> System:
    """A sum over clients, each of which adds its share of Gaussian noise before secure addition: epsilon 2.5 at delta 1e-5."""

    def train(histograms: Any, seed: int) -> Any:
        draw, clients = np.random.default_rng(seed), len(histograms)
        shares = draw.normal(0, 2.0 / np.sqrt(clients), (clients, histograms.shape[1]))
        return (histograms + shares).sum(axis=0)

    def score(total: Any, canaries: Any) -> Any:
        return canaries @ total

    data, canaries = np.full((300, CANARIES), 1 / CANARIES), np.eye(CANARIES)
    coin, score_is = "a client with a rare answer", "the sum at its answer"
    return System(coin=coin, score_is=score_is, data=data, canaries=canaries, train=train, score=score, epsilon=2.5)


SYSTEMS = (
    *(table_generator, text_generator, diffusion_model, retrieval_index, recommender),
    *(knn_service, pate, group_by, embedding_model, federated_analytics),
)

if __name__ == "__main__":
    print(f"{'system':20} {'coin':34} {'score':52} claim  proven ceiling  outcome")
    for make in SYSTEMS:
        system = make()
        report = system.check()
        figures = f"{report.verdict.claim.epsilon:5} {report.bound.epsilon:7.2f} {report.bound.ceiling:7.2f}"
        print(f"{make.__name__:20} {system.coin:34} {system.score_is:52} {figures}  {report.verdict.outcome.value}")
