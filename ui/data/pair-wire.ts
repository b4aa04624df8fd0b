// Efficient decoding of WatchPairs: the packed lists of the
// message are decoded as bytes and viewed as typed arrays.
// The generated decoder would build nine arrays of 39,800 numbers every second.
import { clone, createFileRegistry, type DescMessage } from "@bufbuild/protobuf";
import { FieldDescriptorProto_Label, FieldDescriptorProto_Type, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { FlowService, WatchPairsResponseSchema } from "../gen/flow_pb.ts";
import type { Second } from "./pair-table.ts";

/** The lists of numbers in the message. */
const lists = ["sources", "destinations", "packets", "expected", "lost", "p50Ns", "p99Ns", "rate", "clockErrorNs"] as const;

/** WatchPairsResponse with its lists of numbers as bytes. */
export type Packed = { startMs: bigint; agents: string[] } & Record<(typeof lists)[number], Uint8Array>;

/** The descriptor of the message with the type of its lists replaced. */
function packed(): DescMessage {
  const own = WatchPairsResponseSchema;
  const file = clone(FileDescriptorProtoSchema, own.file.proto);
  file.service = [];
  for (const field of file.messageType.find((m) => m.name === own.name)?.field ?? []) {
    const repeated = field.label === FieldDescriptorProto_Label.REPEATED;
    if (!repeated || field.type === FieldDescriptorProto_Type.STRING) continue;
    field.label = FieldDescriptorProto_Label.OPTIONAL;
    field.type = FieldDescriptorProto_Type.BYTES;
  }
  const found = createFileRegistry(file, (name) => own.file.dependencies.find((d) => d.proto.name === name)?.proto).getMessage(own.typeName);
  if (!found) throw new Error("no descriptor of WatchPairsResponse");
  return found;
}

/** The modified descriptor. */
export const PackedSchema = packed();

/** FlowService with WatchPairs alone, decoded by that descriptor. */
export const PackedService = {
  ...FlowService,
  methods: [{ ...FlowService.method.watchPairs, output: PackedSchema }],
} as unknown as typeof FlowService;

/** Views the lists of a packed second as typed arrays. */
export function unpack(m: Packed): Second {
  return {
    startMs: Number(m.startMs), agents: m.agents,
    sources: integers(m.sources), destinations: integers(m.destinations),
    packets: integers(m.packets), expected: integers(m.expected), lost: integers(m.lost),
    p50Ns: floats(m.p50Ns), p99Ns: floats(m.p99Ns), rate: floats(m.rate), clockErrorNs: floats(m.clockErrorNs),
  };
}

function integers(bytes: Uint8Array): Uint32Array {
  const out = new Uint32Array(bytes.length);
  let n = 0;
  let value = 0;
  let shift = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    value |= (byte & 0x7f) << shift;
    if (byte & 0x80) {
      shift += 7;
      continue;
    }
    out[n++] = value;
    value = shift = 0;
  }
  return out.subarray(0, n);
}

// Both the wire and browsers are little-endian. The copy is aligned.
const floats = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.slice().buffer);
