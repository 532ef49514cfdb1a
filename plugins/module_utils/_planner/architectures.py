# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which model classes a version of vLLM has, and which of them take pipeline parallelism, as data.

Source: model_executor/models/registry.py and the base classes (SupportsPP) in the wheels named by :data:`READ`; classes
that generate text, without drafts.
"""

from __future__ import annotations

import typing as t

from .values import Version, version_of

# The releases that were read. What came between two of them is not known.
_READ = """
    0.10.0 0.10.2 0.11.0 0.11.2 0.12.0 0.13.0 0.14.1 0.15.1 0.16.0 0.17.1 0.18.1 0.19.1 0.20.2 0.21.0 0.22.1 0.23.0
    0.24.0 0.25.1 0.26.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0
"""
READ: tuple[Version, ...] = tuple(map(version_of, _READ.split()))

# The first release that was read in which a class is.
_SINCE: t.Mapping[str, str] = {
    "0.10.0": """
        AquilaForCausalLM ArceeForCausalLM ArcticForCausalLM AriaForConditionalGeneration
        AyaVisionForConditionalGeneration BaiChuanForCausalLM BaichuanForCausalLM BailingMoeForCausalLM
        BambaForCausalLM BartForConditionalGeneration Blip2ForConditionalGeneration BloomForCausalLM
        ChameleonForConditionalGeneration ChatGLMForConditionalGeneration Cohere2ForCausalLM CohereForCausalLM
        DbrxForCausalLM DeciLMForCausalLM DeepseekForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM
        DeepseekVLV2ForCausalLM Dots1ForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM Exaone4ForCausalLM
        ExaoneForCausalLM Fairseq2LlamaForCausalLM FalconForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM
        Florence2ForConditionalGeneration FuyuForCausalLM GLM4VForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM
        GPTJForCausalLM GPTNeoXForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration
        Gemma3nForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM
        Glm4vForConditionalGeneration GlmForCausalLM GraniteForCausalLM GraniteMoeForCausalLM
        GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM GraniteSpeechForConditionalGeneration
        Grok1ModelForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM Idefics3ForConditionalGeneration
        InternLM2ForCausalLM InternLM2VEForCausalLM InternLM3ForCausalLM InternLMForCausalLM JAISLMHeadModel
        JambaForCausalLM KeyeForConditionalGeneration KimiVLForConditionalGeneration LLaMAForCausalLM
        Llama4ForConditionalGeneration LlamaForCausalLM LlavaForConditionalGeneration
        LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration
        LlavaOnevisionForConditionalGeneration MPTForCausalLM Mamba2ForCausalLM MambaForCausalLM
        MantisForConditionalGeneration MiMoForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM MiniMaxForCausalLM
        MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM MiniMaxVL01ForConditionalGeneration
        Mistral3ForConditionalGeneration MistralForCausalLM MixtralForCausalLM MllamaForConditionalGeneration
        MolmoForCausalLM MptForCausalLM NemotronForCausalLM NemotronHForCausalLM OPTForCausalLM Olmo2ForCausalLM
        OlmoForCausalLM OlmoeForCausalLM OrionForCausalLM PaliGemmaForConditionalGeneration PersimmonForCausalLM
        Phi3ForCausalLM Phi3VForCausalLM Phi4FlashForCausalLM Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM
        PixtralForConditionalGeneration Plamo2ForCausalLM QWenLMHeadModel QuantMixtralForCausalLM
        Qwen2AudioForConditionalGeneration Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen2VLForConditionalGeneration
        Qwen2_5OmniForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM
        QwenVLForConditionalGeneration RWForCausalLM SmolVLMForConditionalGeneration SolarForCausalLM
        StableLMEpochForCausalLM StableLmForCausalLM Starcoder2ForCausalLM Tarsier2ForConditionalGeneration
        TarsierForConditionalGeneration TeleChat2ForCausalLM TeleFLMForCausalLM TransformersForCausalLM
        VoxtralForConditionalGeneration WhisperForConditionalGeneration XverseForCausalLM Zamba2ForCausalLM
    """,
    "0.10.2": """
        ApertusForCausalLM Cohere2VisionForConditionalGeneration DonutForConditionalGeneration
        Emu3ForConditionalGeneration Ernie4_5ForCausalLM Ernie4_5_VLMoeForConditionalGeneration Gemma3nForCausalLM
        Glm4vMoeForConditionalGeneration GptOssForCausalLM HCXVisionForCausalLM InternS1ForConditionalGeneration
        InternVLForConditionalGeneration KeyeVL1_5ForConditionalGeneration Lfm2ForCausalLM Llama4ForCausalLM
        MBartForConditionalGeneration MotifForCausalLM Phi4MultimodalForCausalLM Qwen3NextForCausalLM
        RForConditionalGeneration SeedOssForCausalLM SmolLM3ForCausalLM Step3TextForCausalLM
        Step3VLForConditionalGeneration
    """,
    "0.11.0": """
        BailingMoeV2ForCausalLM CwmForCausalLM DeepseekV32ForCausalLM DotsOCRForCausalLM LongcatFlashForCausalLM
        Olmo3ForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
    """,
    "0.11.2": """
        AfmoeForCausalLM BeeForConditionalGeneration DeepseekOCRForCausalLM FlexOlmoForCausalLM KimiLinearForCausalLM
        Lfm2MoeForCausalLM LightOnOCRForConditionalGeneration MiniMaxM2ForCausalLM OuroForCausalLM
        PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguUltraMoEForCausalLM
        Qwen3OmniMoeForConditionalGeneration TransformersMoEForCausalLM TransformersMultiModalForCausalLM
        TransformersMultiModalMoEForCausalLM
    """,
    "0.12.0": """
        HunYuanVLForConditionalGeneration MistralLarge3ForCausalLM OpenCUAForConditionalGeneration Plamo3ForCausalLM
        TeleChatForCausalLM
    """,
    "0.13.0": """
        AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration Jais2ForCausalLM
    """,
    "0.14.1": """
        ExaoneMoEForCausalLM GlmAsrForConditionalGeneration Grok1ForCausalLM IQuestCoderForCausalLM
        IQuestLoopCoderForCausalLM IsaacForConditionalGeneration KananaVForConditionalGeneration
        Lfm2VlForConditionalGeneration MiMoV2FlashForCausalLM NemotronParseForConditionalGeneration
        PanguProMoEV2ForCausalLM
    """,
    "0.15.1": """
        Glm4MoeLiteForCausalLM KimiK25ForConditionalGeneration Molmo2ForConditionalGeneration Step1ForCausalLM
        Step3p5ForCausalLM StepVLForConditionalGeneration
    """,
    "0.16.0": """
        DeepseekOCR2ForCausalLM FunAudioChatForConditionalGeneration GlmMoeDsaForCausalLM
        GlmOcrForConditionalGeneration InternS1ProForConditionalGeneration MusicFlamingoForConditionalGeneration
        NemotronHPuzzleForCausalLM OpenPanguVLForConditionalGeneration Qwen3ASRForConditionalGeneration
    """,
    "0.17.1": """
        AXK1ForCausalLM BailingMoeV2_5ForCausalLM FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration
        Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration
    """,
    "0.18.1": """
        HCXVisionV2ForCausalLM HyperCLOVAXForCausalLM MoonshotKimiaForCausalLM OlmoHybridForCausalLM
        SarvamMLAForCausalLM SarvamMoEForCausalLM
    """,
    "0.19.1": """
        CohereAsrForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration
    """,
    "0.20.2": """
        CheersForConditionalGeneration DeepseekV4ForCausalLM Exaone4_5_ForConditionalGeneration
        FireRedLIDForConditionalGeneration Granite4VisionForConditionalGeneration HYV3ForCausalLM
        Ministral3ForCausalLM Param2MoEForCausalLM Rnj1ForCausalLM TeleChat3ForCausalLM
    """,
    "0.21.0": """
        Cohere2MoeForCausalLM LagunaForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM Moondream3ForCausalLM
        QianfanOCRForConditionalGeneration
    """,
    "0.22.1": """
        InternS2PreviewForConditionalGeneration MellumForCausalLM MiniCPMV4_6ForConditionalGeneration
        PeagleLlamaForCausalLM
    """,
    "0.23.0": """
        Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration
        GraniteSpeechPlusForConditionalGeneration Step3p7ForConditionalGeneration
    """,
    "0.24.0": """
        DiffusionGemmaForBlockDiffusion HrmTextForCausalLM MiniMaxM3SparseForCausalLM
        MiniMaxM3SparseForConditionalGeneration PeagleQwen3ForCausalLM
    """,
    "0.25.1": """
        LlavaOnevision2ForConditionalGeneration MossTranscribeDiarizeForConditionalGeneration UnlimitedOCRForCausalLM
    """,
    "0.26.0": """
        Cosmos3EdgeForConditionalGeneration InklingForCausalLM InklingForConditionalGeneration
        LongcatFlashNgramForCausalLM
    """,
    "0.27.1": """
        ExaoneMoeForCausalLM KimiK3ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM
        VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration
    """,
    "0.28.0": """
        BailingMoeV3ForCausalLM Dots3NoteForCausalLM InternS2MobiusForConditionalGeneration MuseGlimmerForCausalLM
        MuseGlimmerForConditionalGeneration
    """,
    "0.29.0": """
        GraniteMoeSWAForCausalLM GraniteSWAForCausalLM HYV4ForCausalLM Qwen4ExpForCausalLM
        Qwen4ExpForConditionalGeneration
    """,
    "0.30.0": """
        BailingMoeV3VLForConditionalGeneration CohereCompassForConditionalGeneration DeepseekV41ForCausalLM
        DeepseekV4ForConditionalGeneration Glm5NextForCausalLM Glm5NextForConditionalGeneration K2HorizonForCausalLM
        NanbeigeForCausalLM
    """,
    "0.32.0": """
        MiniCPMV4_7ForConditionalGeneration
    """,
    "0.33.0": """
        AliceAIForCausalLM BeamForCausalLM DomynEdgeForCausalLM DoryForCausalLM FlintForCausalLM Kolibri1ForCausalLM
        MiniCPMOcrForConditionalGeneration MuseSparkForConditionalGeneration RadioMBartPrefixForCausalLM
        Step5ForCausalLM Step5ForConditionalGeneration
    """,
}
FIRST_READ: t.Mapping[str, Version] = {
    name: version_of(version) for version, names in _SINCE.items() for name in names.split()
}

# Classes that ran in a release older than the first that was read. Source: model cards and reports.
FIRST_REPORTED: t.Mapping[str, Version] = {
    "GptOssForCausalLM": (0, 10, 1),
    "KimiK25ForConditionalGeneration": (0, 15, 0),
    "MiniMaxM2ForCausalLM": (0, 11, 1),
    "MiniMaxM3SparseForCausalLM": (0, 22, 1),  # vllm#45455
    "MiniMaxM3SparseForConditionalGeneration": (0, 22, 1),
}

# Classes that came without SupportsPP: the first release that was read in which they have it.
PIPELINE_SINCE: t.Mapping[str, Version] = {
    "DeepseekV4ForCausalLM": (0, 21, 0),
    "HunYuanDenseV1ForCausalLM": (0, 10, 2),
    "HunYuanMoEV1ForCausalLM": (0, 10, 2),
    "KimiVLForConditionalGeneration": (0, 10, 2),
    "MiniMaxM3SparseForCausalLM": (0, 25, 1),  # refused in 0.22.1: vllm#45455
    "MiniMaxM3SparseForConditionalGeneration": (0, 25, 1),
    "Plamo2ForCausalLM": (0, 10, 2),
}

# Classes that no release that was read lets be cut into stages.
_NEVER = """
    AliceAIForCausalLM AriaForConditionalGeneration BartForConditionalGeneration CohereAsrForConditionalGeneration
    DomynEdgeForCausalLM DonutForConditionalGeneration DoryForCausalLM FireRedASR2ForConditionalGeneration
    FireRedLIDForConditionalGeneration Florence2ForConditionalGeneration FunASRForConditionalGeneration
    Gemma3nForCausalLM Gemma3nForConditionalGeneration HrmTextForCausalLM IQuestLoopCoderForCausalLM
    Idefics3ForConditionalGeneration MBartForConditionalGeneration Mamba2ForCausalLM MiniMaxForCausalLM
    MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM MllamaForConditionalGeneration
    NemotronParseForConditionalGeneration OuroForCausalLM PaddleOCRVLForConditionalGeneration Phi4FlashForCausalLM
    Phi4MMForCausalLM Phi4MultimodalForCausalLM RadioMBartPrefixForCausalLM SmolVLMForConditionalGeneration
    WhisperForConditionalGeneration Zamba2ForCausalLM
"""
PIPELINE_NEVER: frozenset[str] = frozenset(_NEVER.split())


def last_without(name: str) -> Version | None:
    """The newest release that was read before the class came, None when it was always there or is not known."""
    first = FIRST_READ.get(name)
    older = [v for v in READ if first and v < first]
    return older[-1] if older else None
