//! The tables of both formats that lowtide reads, as shapes. A test compares them with `schema/`.

use super::wire::Kind::{List, Op, Scalar, Table, Tables, Text, Union};
use super::wire::shapes;

shapes! {
    // The delegate payload.
    INT_OR_VID IntOrVid int_or_vid { 0 literal: Scalar(8), 1 vid: Scalar(4), 2 is_vid: Scalar(1) }
    FLOAT_OR_VID FloatOrVid float_or_vid { 0 literal: Scalar(8), 1 vid: Scalar(4), 2 is_vid: Scalar(1) }
    VID_OR_TID VidOrTid vid_or_tid { 0 vid: Scalar(4), 1 tid: Scalar(4), 2 is_vid: Scalar(1) }
    INT_OR_VID_OR_TID IntOrVidOrTid int_or_vid_or_tid {
        0 literal: Scalar(8), 1 vid: Scalar(4), 2 tid: Scalar(4), 3 kind: Scalar(1),
    }
    INSTRUCTION Instruction instruction { 0 op_type: Op }
    INSTRUCTION_CHAIN InstructionChain instruction_chain { 0 instructions: Tables(&INSTRUCTION) }
    SHAPE_DIM ShapeDim shape_dim { 0 value: Scalar(4), 1 min_value: Scalar(4), 2 max_value: Scalar(4) }
    TENSOR_META TensorMeta tensor_meta { 0 shape: Tables(&SHAPE_DIM), 1 scalar_type: Scalar(1), 2 dim_order: List(1) }
    SLOT_VARIANT SlotVariant slot_variant { 0 idx: Scalar(4), 1 slot_type: Scalar(1) }
    NAMED_SLOT NamedSlot named_slot { 0 name: Text, 1 slot: Table(&SLOT_VARIANT) }
    GRAPH MLXGraph graph {
        0 version: Text, 1 num_constant_tensors: Scalar(4), 2 num_input_tensors: Scalar(4),
        3 num_output_tensors: Scalar(4), 4 num_mutable_buffer_tensors: Scalar(4), 5 num_temp_tensors: Scalar(4),
        6 num_values: Scalar(4), 7 instruction_chains: Tables(&INSTRUCTION_CHAIN), 8 main_chain_idx: Scalar(4),
        9 init_chain_idx: Scalar(4), 10 input_map: Tables(&SLOT_VARIANT), 11 output_map: Tables(&SLOT_VARIANT),
        12 mutable_buffer_map: Tables(&SLOT_VARIANT), 13 named_slots: Tables(&NAMED_SLOT),
        14 tensor_meta: Tables(&TENSOR_META),
    }

    // The container.
    ALLOCATION AllocationDetails allocation { 0 memory_id: Scalar(4) }
    EXTRA ExtraTensorInfo extra {
        0 mutable_data_segments_idx: Scalar(8), 2 location: Scalar(1), 3 device_type: Scalar(1),
    }
    TENSOR Tensor tensor {
        0 scalar_type: Scalar(1), 1 storage_offset: Scalar(4), 2 sizes: List(4), 3 dim_order: List(1),
        5 data_buffer_idx: Scalar(4), 6 allocation_info: Table(&ALLOCATION), 8 shape_dynamism: Scalar(1),
        9 extra_tensor_info: Table(&EXTRA),
    }
    NULL Null null {}
    INT Int int { 0 int_val: Scalar(8) }
    BOOL Bool bool_ { 0 bool_val: Scalar(1) }
    DOUBLE Double double { 0 double_val: Scalar(8) }
    STRING String string { 0 string_val: Text }
    INT_LIST IntList int_list { 0 items: List(8) }
    DOUBLE_LIST DoubleList double_list { 0 items: List(8) }
    BOOL_LIST BoolList bool_list { 0 items: List(1) }
    TENSOR_LIST TensorList tensor_list { 0 items: List(4) }
    OPTIONAL_TENSOR_LIST OptionalTensorList optional_tensor_list { 0 items: List(4) }
    EVALUE EValue evalue {
        0 val_type: Union(&[
            &NULL, &INT, &BOOL, &DOUBLE, &TENSOR, &STRING, &INT_LIST, &DOUBLE_LIST, &BOOL_LIST, &TENSOR_LIST,
            &OPTIONAL_TENSOR_LIST,
        ]),
    }
    OPERATOR Operator operator { 0 name: Text, 1 overload: Text }
    KERNEL_CALL KernelCall kernel_call { 0 op_index: Scalar(4), 1 args: List(4) }
    DELEGATE_CALL DelegateCall delegate_call { 0 delegate_index: Scalar(4), 1 args: List(4) }
    MOVE_CALL MoveCall move_call { 0 move_from: Scalar(4), 1 move_to: Scalar(4) }
    JUMP_FALSE_CALL JumpFalseCall jump_false_call { 0 cond_value_index: Scalar(4), 1 destination_instruction: Scalar(4) }
    FREE_CALL FreeCall free_call { 0 value_index: Scalar(4) }
    CALL Instruction call {
        0 instr_args_type: Union(&[&KERNEL_CALL, &DELEGATE_CALL, &MOVE_CALL, &JUMP_FALSE_CALL, &FREE_CALL]),
    }
    DATA_REFERENCE BackendDelegateDataReference data_reference { 0 location: Scalar(1), 1 index: Scalar(4) }
    BACKEND_DELEGATE BackendDelegate backend_delegate { 0 id: Text, 1 processed: Table(&DATA_REFERENCE) }
    PLAN_CHAIN Chain plan_chain { 2 instructions: Tables(&CALL) }
    EXECUTION_PLAN ExecutionPlan execution_plan {
        0 name: Text, 2 values: Tables(&EVALUE), 3 inputs: List(4), 4 outputs: List(4), 5 chains: Tables(&PLAN_CHAIN),
        6 operators: Tables(&OPERATOR), 7 delegates: Tables(&BACKEND_DELEGATE),
    }
    BUFFER Buffer buffer { 0 storage: List(1) }
    INLINE_DATA BackendDelegateInlineData inline_data { 0 data: List(1) }
    DATA_SEGMENT DataSegment data_segment { 0 offset: Scalar(8), 1 size: Scalar(8) }
    SUBSEGMENT_OFFSETS SubsegmentOffsets subsegment_offsets { 0 segment_index: Scalar(4), 1 offsets: List(8) }
    NAMED_DATA NamedData named_data { 0 key: Text, 1 segment_index: Scalar(4) }
    PROGRAM Program program {
        0 version: Scalar(4), 1 execution_plan: Tables(&EXECUTION_PLAN), 2 constant_buffer: Tables(&BUFFER),
        3 backend_delegate_data: Tables(&INLINE_DATA), 4 segments: Tables(&DATA_SEGMENT),
        5 constant_segment: Table(&SUBSEGMENT_OFFSETS), 7 named_data: Tables(&NAMED_DATA),
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Kind, Shape};
    use super::*;
    use std::collections::HashMap;

    /// (table, field) -> (slot, type) of one of the fact files.
    fn facts(text: &'static str) -> HashMap<(&'static str, &'static str), (u8, &'static str)> {
        let rows = text.lines().skip(1).map(|l| l.split('\t').collect::<Vec<_>>());
        rows.filter(|r| r[0].is_empty() && !r[2].is_empty())
            .map(|r| ((r[1], r[3]), (r[2].parse().unwrap(), r[4])))
            .collect()
    }

    fn holds(kind: Kind, wire: &str) -> bool {
        let scalar = |t: &str| match t {
            "int8"
            | "uint8"
            | "byte"
            | "ubyte"
            | "bool"
            | "SlotType"
            | "ScalarType"
            | "TensorShapeDynamism"
            | "TensorDataLocation"
            | "DeviceType"
            | "DataLocation" => 1,
            "int" | "uint" | "int32" | "uint32" | "Vid" | "Tid" => 4,
            "long" | "double" | "int64" | "uint64" => 8,
            _ => 0,
        };
        let list = wire.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
        match kind {
            Kind::Scalar(size) => scalar(wire) == size,
            Kind::List(size) => list.is_some_and(|w| scalar(w) == size),
            Kind::Text => wire == "string",
            Kind::Texts => wire == "[string]",
            Kind::Table(shape) => wire == shape.name,
            Kind::Tables(shape) => list == Some(shape.name),
            Kind::Union(_) | Kind::Op => wire == "u8 union tag",
        }
    }

    fn compare(shapes: &[&'static Shape], text: &'static str) -> usize {
        let facts = facts(text);
        let mut compared = 0;
        for shape in shapes {
            for part in shape.fields {
                let (slot, wire) = facts[&(shape.name, part.name)];
                assert_eq!(slot, part.slot, "{}.{}", shape.name, part.name);
                assert!(holds(part.kind, wire), "{}.{} is {wire}", shape.name, part.name);
                compared += 1;
            }
        }
        compared
    }

    #[test]
    fn shapes_equal_the_wire_facts() {
        let payload = [
            &INT_OR_VID,
            &FLOAT_OR_VID,
            &VID_OR_TID,
            &INT_OR_VID_OR_TID,
            &INSTRUCTION,
            &INSTRUCTION_CHAIN,
            &SHAPE_DIM,
            &TENSOR_META,
            &SLOT_VARIANT,
            &NAMED_SLOT,
            &GRAPH,
        ];
        assert_eq!(compare(&payload, include_str!("../../schema/mlx_wire.tsv")), 40);
        let container = [
            &ALLOCATION,
            &EXTRA,
            &TENSOR,
            &EVALUE,
            &OPERATOR,
            &CALL,
            &DATA_REFERENCE,
            &BACKEND_DELEGATE,
            &PLAN_CHAIN,
            &EXECUTION_PLAN,
            &BUFFER,
            &INLINE_DATA,
            &DATA_SEGMENT,
            &SUBSEGMENT_OFFSETS,
            &NAMED_DATA,
            &PROGRAM,
        ];
        let text = include_str!("../../schema/pte_wire.tsv");
        assert_eq!(compare(&container, text), 43);
        // The members of the unions, in tag order, and their fields.
        let (Kind::Union(values), Kind::Union(calls)) = (EVALUE.fields[0].kind, CALL.fields[0].kind) else { panic!() };
        for (union, members) in [("union KernelTypes", values), ("union InstructionArguments", calls)] {
            let rows = text.lines().map(|l| l.split('\t').collect::<Vec<_>>()).filter(|r| r[1] == union);
            let named: Vec<&str> = rows.map(|r| r[3]).collect();
            assert_eq!(named, members.iter().map(|m| m.name).collect::<Vec<_>>());
            assert!(compare(members, text) >= 9);
        }
    }
}
