"""
Names in text, from a file to a saved model
===========================================

This page reads a file of tagged sentences, trains a tagger, scores the names that it finds, saves
it, and tags one sentence with it in about a millisecond. Then it compares the learners, and adds a
second stage. :doc:`/tag-text` is the guide to these functions.
"""

import random
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from time import perf_counter, process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from structboost import StructBoostTagger
from structboost.text import TokenFeatures, TwoStageTagger, chunk_scores, read_tagged

# %%
# The text
# --------
#
# News in the BIO scheme: ``B-PER`` begins the name of a person, ``I-PER`` continues it, and ``O``
# is outside. People, firms and places share their names, so that only the words around a name
# show its kind. Each article is about one name, and some of its sentences leave the kind open.

rng = random.Random(0)
pick = rng.choice
STARTS = "Bel Mar Tor Kal Ves Lin Or San Dal Nor Pel Har Wil Ros Gren Ham Ash Bran".split()
MIDDLES = "a i o e u ar in el".split()
ENDS = "ton ford berg mont well dale field sen ova ic ard ino".split()
WORDS = {
    "first": "Ada Boris Clara David Elena Felix Grace Hugo Irene Jonas Karin Leo Maria".split(),
    "trade": "Steel Foods Motors Air Energy Bank Media Press".split(),
}
OPENINGS = ["", "", "On Monday", "In March", "In [LOC Y] ,", "According to [PER first Z] ,"]
SUBJECTS = {
    "PER": ["Mr [PER X]", "[PER first X]", "the painter [PER first X]", "the widow of [PER X]"],
    "ORG": ["[ORG X trade]", "the board of [ORG X]", "shares of [ORG X]", "the owners of [ORG X]"],
    "LOC": ["the mayor of [LOC X]", "the old town of [LOC X]", "trains from [LOC Y] to [LOC X]"],
    "open": ["[? X]", "critics of [? X]", "the history of [? X]", "friends of [? X]"],
}
PREDICATES = [
    "lost again", "will wait until May", "asked for too much", "surprised everybody",
    "needed 200 workers", "cost 3 million crowns", "stayed calm", "made peace with [PER first Z]",
    "praised Mrs [PER Z]", "sued [ORG Z trade]", "won a prize from [ORG Z]", "moved to [LOC Y]",
    "opened a bakery in [LOC Y]", "were seen near [LOC Y]",
]  # fmt: skip


def article(n_sentences=4):
    """Lines of an article, with a token and its tag on each."""
    kind = pick(["PER", "ORG", "LOC"])
    names = {slot: pick(STARTS) + pick(MIDDLES) + pick(ENDS) for slot in "XYZ"}
    lines = ""
    for group in rng.sample([kind, kind, "open", pick([kind, "open"])], n_sentences):
        text = f"{pick(OPENINGS)} {pick(SUBJECTS[group])} {pick(PREDICATES)} ."
        tag, is_first = "O", True
        for slot in text.replace("?", kind).split():
            if slot.startswith("["):
                tag = f"B-{slot[1:]}"
                continue
            word = slot.rstrip("]")
            word = names.get(word) or (pick(WORDS[word]) if word in WORDS else word)
            lines += f"{word[0].upper() + word[1:] if is_first else word} {tag}\n"
            tag, is_first = tag.replace("B-", "I-"), False
            if slot.endswith("]"):
                tag = "O"
        lines += "\n"
    return lines


folder = Path(mkdtemp())
path = folder / "news.txt"
path.write_text("".join(f"-DOCSTART- O\n\n{article()}" for _ in range(140)), encoding="utf-8")
print(path.read_text(encoding="utf-8")[:190])

# %%
# Reading and training
# --------------------
#
# ``read_tagged`` gives each token a dict of its columns, the tags, and here the article of each
# sentence. The first half is for training. Both halves have articles of their own.

X, y, documents = read_tagged(path, return_documents=True)
half = 280
train, test = slice(half), slice(half, None)
print(X[0][0], y[0][0], len(X), "sentences,", sum(map(len, X)), "tokens")

tagger = make_pipeline(TokenFeatures(), StructBoostTagger(random_state=0))
tagger.fit(X[train], y[train])
print(tagger[-1])

# %%
# The summary names what was done: one linear function of the features, fitted by likelihood to a
# certified gap, with a C that was chosen on held-out sentences.
#
# Scores
# ------
#
# A name is correct with its borders and its kind, as ``conlleval`` counts:

predicted = tagger.predict(X[test])
print(chunk_scores(y[test], predicted))

# %%
# Nearly all borders are found. The kinds are not, where a sentence leaves them open.
#
# Probabilities
# -------------
#
# They show where the tagger is unsure. The second sentence leaves open what Norelberg
# is. A pipeline has no ``predict_marginals``, so its steps are called one after the other.

features, linear = tagger
sentences = [
    "The owners of Norelberg moved to Umeda .".split(),
    "On Monday Norelberg surprised everybody .".split(),
]
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for axis, sentence in zip(axes, sentences, strict=True):
    (of_tokens,) = linear.predict_marginals(features.transform([sentence]))
    table = np.array([list(of_token.values()) for of_token in of_tokens])
    image = axis.imshow(table.T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(sentence)), sentence, rotation=45, ha="right")
    axis.set_yticks(range(len(linear.classes_)), linear.classes_)
figure.colorbar(image, label="probability")
plt.show()

# %%
# What the features of the largest weights add to the score of each tag:

weights = linear.feature_weights_
largest = np.argsort(abs(weights).max(axis=1))[:-16:-1]
most = abs(weights).max()
figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
image = axis.imshow(weights[largest], cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
axis.set_xticks(range(len(linear.classes_)), linear.classes_)
axis.set_yticks(range(len(largest)), [linear.feature_names_[i] for i in largest])
figure.colorbar(image, label="weight")
plt.show()

# %%
# Save, load, serve
# -----------------
#
# The files have no pickle. That of the features holds their parameters and the counts of the words
# in training.

features.save(folder / "features")
linear.save(folder / "tagger")
served = make_pipeline(
    TokenFeatures.load(folder / "features"), StructBoostTagger.load(folder / "tagger")
)
assert served.predict(X[test]) == predicted

# %%
# One sentence as it comes, with its features:

sentence = "According to Ada Quist , the mayor of Umeda moved to Kalino .".split()
print(list(zip(sentence, served.predict([sentence])[0], strict=True)))
times = []
for _ in range(200):
    start = perf_counter()
    served.predict([sentence])
    times.append(perf_counter() - start)
print(f"{1000 * median(times):.2f} ms; the file has {(folder / 'tagger').stat().st_size:,} bytes")

# %%
# Linear, trees or both
# ---------------------
#
# Words are names of 0 and 1, of which a token has few, and many add up. Numbers are another matter.
# Here are receipts read from photographs: each word has a height. The price in large print is the
# total, but the price in the largest print is an advertisement. A linear function of the height
# cannot separate the two. Trees split it twice.


def f1(true, predicted):
    """F1 of chunks."""
    return chunk_scores(true, predicted).total.f1


def receipt():
    """Words of a receipt with their heights, and their tags, in any order."""
    lines = [([pick(STARTS) + pick(ENDS), "Store"], ["B-SHOP", "I-SHOP"], (1.2, 1.5))]
    prices = [("B-TOTAL", (1.2, 1.5)), ("O", (1.6, 2.0)), *[("O", (0.7, 1.1))] * 4]
    for tag, heights in prices:
        lines.append(([f"{pick(range(100, 3000)) / 100:.2f}"], [tag], heights))
    for word in rng.sample(["Bread", "Milk", "Rice", "Soap", "Tea", "Thanks", "Hours"], 4):
        lines.append(([word], ["O"], (0.7, 2.0)))
    rng.shuffle(lines)
    tokens = [
        ({"word": word, "height": rng.uniform(*heights)}, tag)
        for words, tags, heights in lines
        for word, tag in zip(words, tags, strict=True)
    ]
    return [token for token, _ in tokens], [tag for _, tag in tokens]


receipts, tags = zip(*[receipt() for _ in range(160)], strict=True)
of_words = TokenFeatures(window=1, columns=[]).fit_transform(receipts)
of_receipts = [
    [{**names, "height": token["height"]} for names, token in zip(*pair, strict=True)]
    for pair in zip(of_words, receipts, strict=True)
]
of_news = features.transform(X[train]) + features.transform(X[test])
learners = {"linear": "linear", "trees": "tree", "both": ["linear", "tree"]}
print("learner    news, F1   CPU s   receipts, F1   CPU s")
for name, learner in learners.items():
    cells = []
    for inputs, outputs, n in ((of_news, y, half), (of_receipts, tags, 80)):
        model = StructBoostTagger(weak_learner=learner, random_state=0)
        start = process_time()
        model.fit(inputs[:n], outputs[:n])
        cells += [f1(outputs[n:], model.predict(inputs[n:])), process_time() - start]
    print("{:8s} {:10.3f} {:7.1f} {:14.3f} {:7.1f}".format(name, *cells))

# %%
# - Words alone, of many sentences: keep the default, which is the linear function.
# - Numbers, such as places on a page, sizes or measurements: keep the default, which is trees.
# - A small text: compare ``"tree"`` and ``["linear", "tree"]`` with it on held-out data. They find
#   pairs of features that matter together. They hold tokens as a dense table, which 100,000 names
#   make too large.
# - ``objective="l1_log_loss"`` gives few names a weight. ``"svm"`` and ``"hinge"`` minimise the
#   fraction of wrong tags, and give no calibrated probabilities.
#
# Names that occur again
# ----------------------
#
# One sentence of an article is clear about what the next one leaves open. ``TwoStageTagger`` has a
# second stage that sees which tags the first one gave to the same word in the article.

two = TwoStageTagger(StructBoostTagger(random_state=0))
start = process_time()
two.fit(of_news[train], y[train], documents=documents[train])
seconds = process_time() - start
again = two.predict(of_news[test], documents=documents[test])
print(f"F1 {f1(y[test], predicted):.3f} with one stage, {f1(y[test], again):.3f} with")
print(f"two, which took {seconds:.1f} CPU s to train")
alone = [two.predict([tokens])[0] for tokens in of_news[test]]
print(f"F1 {f1(y[test], alone):.3f} if it sees one sentence at a time")

# %%
# The second stage helps where words occur again: in articles, letters, reports. Then give
# ``predict`` all sentences of a document together, which a server of single sentences cannot do.
