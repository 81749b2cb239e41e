//! The rows. Adding an op is adding a row here, and a shader function or family where none fits.

use super::ops;
use crate::kernel::*;

ops! {
    1 Noop noop &move_::NOOP => {}
    2 IdCopy id_copy &view::ALIAS => { x: Tid In Required, out: Tid Out Required }
    3 Addmm addmm &matmul::ADDMM => {
        mat1: Tid In Required, mat2: Tid In Required, out: Tid Out Required, bias: Tid In Optional,
        alpha: F32 In Default = 1.0, beta: F32 In Default = 1.0,
    }
    4 ItemInt item_int &host::ITEM_INT => { x: Tid In Required, out: Vid Out Required }
    5 ExpandDims expand_dims &view::EXPAND_DIMS => {
        x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0,
    }
    6 Tile tile &move_::TILE => { x: Tid In Required, out: Tid Out Required, reps: IntsOrVids In Required }
    7 TakeAlongAxis take_along_axis &gather::TAKE_ALONG_AXIS => {
        x: Tid In Required, indices: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0,
    }
    8 Take take &gather::TAKE => {
        x: Tid In Required, out: Tid Out Required, index: IntOrVidOrTid In Required, axis: I32 In Default = 0,
    }
    9 RMSNorm rms_norm &norm::RMS_NORM => {
        x: Tid In Required, weight: Tid In Optional, out: Tid Out Required, eps: F32 In Default = 0.0,
    }
    10 LayerNorm layer_norm &norm::LAYER_NORM => {
        x: Tid In Required, out: Tid Out Required, weight: Tid In Optional, bias: Tid In Optional,
        eps: F32 In Default = 0.0,
    }
    11 Rope rope &rope::ROPE => {
        x: Tid In Required, out: Tid Out Required, dims: I32 In Default = 0, offset: VidOrTid In Required,
        freqs: Tid In Optional, traditional: Bool In Default = 0, base: F32 In Default = 500000.0,
        scale: F32 In Default = 1.0,
    }
    12 Sdpa sdpa &attend::SDPA => {
        q: Tid In Required, k: Tid In Required, v: Tid In Required, out: Tid Out Required,
        scale: F32 In Default = 0.0, mask: Tid In Optional, causal: Bool In Default = 0,
    }
    13 Add add &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    14 AddInt add_int &host::INT_BINARY => {
        a: IntOrVid In Required, b: IntOrVid In Required, out: Vid Out Required,
    }
    15 SubtractInt subtract_int &host::INT_BINARY => {
        a: IntOrVid In Required, b: IntOrVid In Required, out: Vid Out Required,
    }
    16 MultiplyInt multiply_int &host::INT_BINARY => {
        a: IntOrVid In Required, b: IntOrVid In Required, out: Vid Out Required,
    }
    17 FloorDivideInt floor_divide_int &host::INT_BINARY => {
        a: IntOrVid In Required, b: IntOrVid In Required, out: Vid Out Required,
    }
    18 SymSize sym_size &host::SYM_SIZE => { a: Tid In Required, dim: I32 In Default = 0, out: Vid Out Required }
    19 Multiply multiply &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    20 Divide divide &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    21 Subtract subtract &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    22 Conv1D conv1d &conv::CONV => {
        x: Tid In Required, w: Tid In Required, out: Tid Out Required, stride: I32 In Default = 1,
        padding: I32 In Default = 0, dilation: I32 In Default = 1, groups: I32 In Default = 1,
    }
    23 Conv2D conv2d &conv::CONV => {
        x: Tid In Required, w: Tid In Required, out: Tid Out Required, stride_h: I32 In Default = 1,
        stride_w: I32 In Default = 1, padding_h: I32 In Default = 0, padding_w: I32 In Default = 0,
        dilation_h: I32 In Default = 1, dilation_w: I32 In Default = 1, groups: I32 In Default = 1,
    }
    24 Conv3D conv3d &conv::CONV => {
        x: Tid In Required, w: Tid In Required, out: Tid Out Required, stride_d: I32 In Default = 1,
        stride_h: I32 In Default = 1, stride_w: I32 In Default = 1, padding_d: I32 In Default = 0,
        padding_h: I32 In Default = 0, padding_w: I32 In Default = 0, dilation_d: I32 In Default = 1,
        dilation_h: I32 In Default = 1, dilation_w: I32 In Default = 1, groups: I32 In Default = 1,
    }
    25 Gelu gelu &map::UNARY => { x: Tid In Required, out: Tid Out Required, approximate: Str In Required }
    26 ARange arange &fill::ARANGE => {
        out: Tid Out Required, start: IntOrVid In Required, stop: IntOrVid In Required, step: IntOrVid In Required,
        scalar_type: I8 In Optional,
    }
    27 Silu silu &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    28 Sigmoid sigmoid &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    29 Tanh tanh &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    30 Squeeze squeeze &view::SQUEEZE => { x: Tid In Required, out: Tid Out Required, dims: I32s In Optional }
    31 Split split &view::SPLIT => {
        x: Tid In Required, outs: Tids Out Required, sizes: IntsOrVids In Required, axis: I32 In Default = 0,
    }
    32 Rsqrt rsqrt &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    33 Maximum maximum &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    34 Minimum minimum &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    35 Log log &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    36 Softmax softmax &norm::SOFTMAX => {
        x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0, precise: Bool In Default = 0,
    }
    37 BroadcastTo broadcast_to &view::BROADCAST => {
        x: Tid In Required, out: Tid Out Required, shape: IntsOrVids In Required,
    }
    38 Pad pad &move_::PAD => {
        x: Tid In Required, out: Tid Out Required, pad_width: IntsOrVids In Required, mode: Str In Required,
        constant_value: F32 In Default = 0.0,
    }
    39 Where where_ &map::WHERE => {
        condition: Tid In Required, x: Tid In Required, y: Tid In Required, out: Tid Out Required,
    }
    40 Reshape reshape &view::RESHAPE => {
        x: Tid In Required, out: Tid Out Required, shape: IntsOrVids In Required,
    }
    41 Transpose transpose &view::TRANSPOSE => {
        x: Tid In Required, out: Tid Out Required, perm: I32s In Required,
    }
    42 AsStrided as_strided &view::AS_STRIDED => {
        x: Tid In Required, out: Tid Out Required, shape: IntsOrVids In Required, strides: IntsOrVids In Required,
        offset: U64 In Default = 0,
    }
    43 Contiguous contiguous &view::CONTIGUOUS => { x: Tid In Required, out: Tid Out Required }
    44 Gather gather &gather::GATHER => {
        x: Tid In Required, indices: Tids In Required, out: Tid Out Required, axes: I32s In Required,
        slice_sizes: I32s In Required,
    }
    45 Slice slice &view::SLICE => {
        x: Tid In Required, out: Tid Out Required, axis: IntOrVid In Required, start: IntOrVid In Required,
        stop: IntOrVid In Required, step: I32 In Default = 1,
    }
    46 AsType as_type &map::CAST => { x: Tid In Required, out: Tid Out Required, scalar_type: I8 In Default = 0 }
    47 Concatenate concatenate &move_::CONCATENATE => {
        tensors: Tids In Required, out: Tid Out Required, axis: I32 In Default = 0,
    }
    48 Full full &fill::FULL => {
        out: Tid Out Required, shape: IntsOrVids In Required, v: FloatOrVid In Required,
        scalar_type: I8 In Default = 0,
    }
    49 FullLike full_like &fill::FULL_LIKE => {
        x: Tid In Required, out: Tid Out Required, v: FloatOrVid In Required, scalar_type: I8 In Optional,
    }
    50 Argmax argmax &reduce::ARG => {
        x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0, keepdims: Bool In Default = 0,
    }
    51 SliceUpdate slice_update &scatter::SLICE_UPDATE => {
        dst: Tid In Required, update: Tid In Required, out: Tid Out Required, axis: IntOrVid In Required,
        start: IntOrVid In Required, stop: IntOrVid In Required, step: I32 In Default = 1,
    }
    52 IndexCopy index_copy &scatter::INDEX_COPY => {
        dst: Tid In Required, update: Tid In Required, indices: Tid In Required, out: Tid Out Required,
        axis: I32 In Default = 0,
    }
    53 Dequantize dequantize &quant::DEQUANTIZE => {
        w: Tid In Required, scales: Tid In Required, out: Tid Out Required, biases: Tid In Optional,
        group_size: I32 In Default = 0, bits: I32 In Default = 0, mode: Str In Required,
        global_scale: Tid In Optional, dtype: I8 In Optional,
    }
    54 Less less &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    55 LessEqual less_equal &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    56 Greater greater &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    57 GreaterEqual greater_equal &map::BINARY => {
        a: Tid In Required, b: Tid In Required, out: Tid Out Required,
    }
    58 Equal equal &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    59 NotEqual not_equal &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    60 LogicalNot logical_not &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    61 LogicalAnd logical_and &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    62 LogicalOr logical_or &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    63 Tri tri &fill::TRI => {
        out: Tid Out Required, n: IntOrVid In Required, m: IntOrVid In Required, k: I32 In Default = 0,
        scalar_type: I8 In Default = 0,
    }
    64 Tril tril &fill::TRIL => { x: Tid In Required, out: Tid Out Required, k: I32 In Default = 0 }
    65 Triu triu &fill::TRIU => { x: Tid In Required, out: Tid Out Required, k: I32 In Default = 0 }
    66 Floor floor &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    67 Ceil ceil &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    68 Square square &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    69 Exp exp &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    70 Sin sin &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    71 Cos cos &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    72 Tan tan &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    73 Arcsin arcsin &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    74 Arccos arccos &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    75 Arctan arctan &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    76 Sinh sinh &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    77 Cosh cosh &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    78 Arcsinh arcsinh &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    79 Arccosh arccosh &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    80 Arctanh arctanh &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    81 Log2 log2 &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    82 Log10 log10 &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    83 Log1p log1p &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    84 Erf erf &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    85 Expm1 expm1 &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    86 Round round &map::UNARY => { x: Tid In Required, out: Tid Out Required, decimals: I32 In Default = 0 }
    87 Reciprocal reciprocal &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    88 Sqrt sqrt &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    89 Abs abs &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    90 Neg neg &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    91 Atan2 atan2 &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    92 LogAddExp log_add_exp &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    93 FloorDivide floor_divide &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    94 Power power &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    95 LogSumExp log_sum_exp &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    96 Sum sum &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    97 Mean mean &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    98 Var var &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
        ddof: I32 In Default = 0,
    }
    99 Std std &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
        ddof: I32 In Default = 0,
    }
    100 Prod prod &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    101 Max max &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    102 Min min &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    103 Argmin argmin &reduce::ARG => {
        x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0, keepdims: Bool In Default = 0,
    }
    104 Median median &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    105 ModInt mod_int &host::INT_BINARY => {
        a: IntOrVid In Required, b: IntOrVid In Required, out: Vid Out Required,
    }
    106 Remainder remainder &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    107 ConvTranspose1D conv_transpose1d &conv::CONV_TRANSPOSE => {
        x: Tid In Required, w: Tid In Required, out: Tid Out Required, stride: I32 In Default = 1,
        padding: I32 In Default = 0, dilation: I32 In Default = 1, output_padding: I32 In Default = 0,
        groups: I32 In Default = 1,
    }
    108 ConvTranspose2D conv_transpose2d &conv::CONV_TRANSPOSE => {
        x: Tid In Required, w: Tid In Required, out: Tid Out Required, stride_h: I32 In Default = 1,
        stride_w: I32 In Default = 1, padding_h: I32 In Default = 0, padding_w: I32 In Default = 0,
        dilation_h: I32 In Default = 1, dilation_w: I32 In Default = 1, output_padding_h: I32 In Default = 0,
        output_padding_w: I32 In Default = 0, groups: I32 In Default = 1,
    }
    109 ConvTranspose3D conv_transpose3d &conv::CONV_TRANSPOSE => {
        x: Tid In Required, w: Tid In Required, out: Tid Out Required, stride_d: I32 In Default = 1,
        stride_h: I32 In Default = 1, stride_w: I32 In Default = 1, padding_d: I32 In Default = 0,
        padding_h: I32 In Default = 0, padding_w: I32 In Default = 0, dilation_d: I32 In Default = 1,
        dilation_h: I32 In Default = 1, dilation_w: I32 In Default = 1, output_padding_d: I32 In Default = 0,
        output_padding_h: I32 In Default = 0, output_padding_w: I32 In Default = 0, groups: I32 In Default = 1,
    }
    110 Clip clip &map::CLIP => {
        x: Tid In Required, out: Tid Out Required, a_min: Tid In Optional, a_max: Tid In Optional,
    }
    111 Cumsum cumsum &reduce::CUMSUM => {
        x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0, reverse: Bool In Default = 0,
        inclusive: Bool In Default = 1,
    }
    112 Stack stack &move_::STACK => {
        tensors: Tids In Required, out: Tid Out Required, axis: I32 In Default = 0,
    }
    113 Sign sign &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    114 Any any &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    115 All all &reduce::REDUCE => {
        x: Tid In Required, out: Tid Out Required, axes: I32s In Optional, keepdims: Bool In Default = 0,
    }
    116 Repeat repeat &move_::REPEAT => {
        x: Tid In Required, out: Tid Out Required, repeats: IntOrVid In Required, axis: I32 In Default = 0,
    }
    117 Sort sort &sort::SORT => { x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0 }
    118 Argsort argsort &sort::SORT => { x: Tid In Required, out: Tid Out Required, axis: I32 In Default = 0 }
    119 Partition partition &sort::SORT => {
        x: Tid In Required, out: Tid Out Required, kth: IntOrVid In Required, axis: I32 In Default = 0,
    }
    120 ArgPartition arg_partition &sort::SORT => {
        x: Tid In Required, out: Tid Out Required, kth: IntOrVid In Required, axis: I32 In Default = 0,
    }
    121 QuantizedMatmul quantized_matmul &quant::QUANTIZED_MATMUL => {
        x: Tid In Required, w: Tid In Required, scales: Tid In Required, out: Tid Out Required,
        biases: Tid In Optional, group_size: I32 In Default = 0, bits: I32 In Default = 0, mode: Str In Required,
        transpose: Bool In Default = 1,
    }
    122 ScatterAdd scatter_add &scatter::SCATTER_ADD => {
        x: Tid In Required, indices: Tid In Required, updates: Tid In Required, out: Tid Out Required,
        axis: I32 In Default = 0,
    }
    123 GatherMm gather_mm &matmul::GATHER_MM => {
        a: Tid In Required, b: Tid In Required, out: Tid Out Required, lhs_indices: Tid In Optional,
        rhs_indices: Tid In Optional, sorted_indices: Bool In Default = 0, sorted_indices_flag: IntOrVid In Optional,
    }
    124 GatherQmm gather_qmm &quant::GATHER_QMM => {
        x: Tid In Required, w: Tid In Required, scales: Tid In Required, out: Tid Out Required, mode: Str In Required,
        biases: Tid In Optional, lhs_indices: Tid In Optional, rhs_indices: Tid In Optional,
        transpose: Bool In Default = 1, group_size: I32 In Default = 0, bits: I32 In Default = 0,
        sorted_indices: Bool In Default = 0, sorted_indices_flag: IntOrVid In Optional,
    }
    125 Scan scan &control::SCAN => {
        originals: Tids In Required, sliced: Tids Out Required, outputs: Tids Out Required, carry: Tids InOut Required,
        body_chain_idx: I32 In Default = 0, scan_axis: I32 In Default = 1,
    }
    126 MetalKernel metal_kernel &foreign::METAL_KERNEL => {
        name: Str In Required, source: Str In Required, inputs: Tids In Required, outputs: Tids Out Required,
        grid: IntsOrVids In Required, threadgroup: IntsOrVids In Required, header: Str In Optional,
        input_names: Strs In Optional, output_names: Strs In Optional, ensure_row_contiguous: Bool In Default = 1,
        atomic_outputs: Bool In Default = 0, output_shapes_flat: IntsOrVids In Optional,
        output_shape_lengths: I32s In Optional, output_dtypes: I8s In Optional, template_arg_names: Strs In Optional,
        template_arg_kinds: I8s In Optional, template_arg_values: I32s In Optional, init_value: F32 In Optional,
    }
    127 BitwiseInvert bitwise_invert &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    128 Roll roll &move_::ROLL => {
        x: Tid In Required, out: Tid Out Required, shift: IntsOrVids In Required, axes: I32s In Required,
    }
    129 BitwiseAnd bitwise_and &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    130 BitwiseOr bitwise_or &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    131 BitwiseXor bitwise_xor &map::BINARY => { a: Tid In Required, b: Tid In Required, out: Tid Out Required }
    132 If if_ &control::IF => {
        cond: IntOrVid In Required, then_chain_idx: U32 In Default = 0, else_chain_idx: U32 In Default = 0,
    }
    133 RandomBits random_bits &random::RANDOM_BITS => {
        out: Tid Out Required, shape: IntsOrVids In Required, seed: Vid In Optional, width: I32 In Default = 4,
    }
    134 UpdateAndAttend update_and_attend &cache::UPDATE_AND_ATTEND => {
        q: Tid In Required, k: Tid In Required, v: Tid In Required, position: Tid In Required, out: Tid Out Required,
        layer_id: I32 In Optional, scale: F32 In Optional, out_dtype: I8 In Optional,
    }
    135 Trunc trunc &map::UNARY => { x: Tid In Required, out: Tid Out Required }
    136 Flip flip &move_::FLIP => { x: Tid In Required, out: Tid Out Required, axes: I32s In Required }
}
