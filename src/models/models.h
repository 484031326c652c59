/* Every model class, and what pipelines need of each beside its forward. */
#ifndef TSR_MODELS_MODELS_H
#define TSR_MODELS_MODELS_H

#include "models/model.h"

/* Flux2Transformer2DModel: hidden_states [B, L, C], encoder_hidden_states [B, S, J], timestep [B] in 0..1, guidance [B]
 * (where the config has guidance_embeds), img_ids [L, 4], txt_ids [S, 4] -> transformer_out [B, L, C]. */
extern const tsr_model_desc tsr__flux2_transformer;
int64_t tsr__flux2_in_channels(const tsr_model *model);
int64_t tsr__flux2_joint_attention_dim(const tsr_model *model);

/* MiniMaxH3Transformer3DModel: one packed sequence of S rows. hidden_states [B, V, C] (video), audio_hidden_states
 * [B, A, C'], encoder_hidden_states [B, N, J] (text), video_indices [V], audio_indices [A] and text_indices [N]: their
 * places in it; timestep [T] in 0..1, distinct ones; timestep_indices [S] and token_tags [S]: timestep and modality (0
 * video, 1 text, 2 audio) of each row; position_ids [S, 3] (t, h, w), may be fractional -> sample [B, V, C],
 * audio_sample [B, A, C']. */
extern const tsr_model_desc tsr__minimax_h3_transformer;

/* Qwen3ForCausalLM as a text encoder: input_ids, attention_mask [B, S] -> prompt_embeds [B, S, 3 hidden], the states
 * after layers 9, 18 and 27 side by side. Layers behind the last are not loaded. */
extern const tsr_model_desc tsr__qwen3;
int64_t tsr__qwen3_embedding_dim(const tsr_model *model);
int64_t tsr__qwen3_vocab_size(const tsr_model *model);

/* AutoencoderKLFlux2, the decoder: z [B, C, h, w] -> sample [B, 3, 8h, 8w]. */
extern const tsr_model_desc tsr__autoencoder_kl_flux2;
/* Packed latents [B, H W, 4C], normalised -> z [B, C, 2H, 2W]: batch-norm undone, patches unfolded. */
tsr__value tsr__flux2_unpack_latents(tsr__exec *x, const tsr_model *vae, tsr__value latents, int64_t height,
                                     int64_t width);
int64_t tsr__flux2_vae_latent_channels(const tsr_model *vae);
/* Pixels along a side for each latent row: 8 in released models. */
int64_t tsr__flux2_vae_scale_factor(const tsr_model *vae);
/* Pixels along a side of the pictures it was made for: 1024 in released models. */
int64_t tsr__flux2_vae_sample_size(const tsr_model *vae);
int64_t tsr__flux2_vae_patch(const tsr_model *vae);

#endif
