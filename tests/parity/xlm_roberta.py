"""XLM-RoBERTa and CamemBERT against transformers': the data of their parity tests."""

from transformers import CamembertConfig, XLMRobertaConfig

from kit import Case
from parity.roberta import CLASSES, CONTROLS, SIZES

CASES = [
    *(Case(name.replace("Roberta", "XLMRoberta"), XLMRobertaConfig, SIZES) for name in CLASSES),
    *(Case(name.replace("Roberta", "Camembert"), CamembertConfig, SIZES) for name in CLASSES),
]
VARIANTS = ()
__all__ = ["CASES", "CONTROLS", "VARIANTS"]
