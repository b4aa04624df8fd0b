// Answers of the server in columns, from edges and paths in words.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { GetTopologyResponseSchema, type GetTopologyResponse, type OneWaySchema } from "../gen/topology_pb.ts";

interface EdgeWords {
  from: string;
  to: string;
  rttNs?: bigint;
  measured?: boolean;
  oneWay?: MessageInitShape<typeof OneWaySchema>;
}

interface PathWords {
  source: string;
  destination: string;
  address: string;
  protocol?: string;
  reached?: boolean;
  /** Ids of nodes. */
  nodes: string[];
}

type Nodes = NonNullable<MessageInitShape<typeof GetTopologyResponseSchema>["nodes"]>;

/** Makes an answer; paths were traced and changed now. */
export function answerOf(nodes: Nodes, edges: EdgeWords[], paths: PathWords[]): GetTopologyResponse {
  const at = (id: string | undefined) => nodes.findIndex((n) => n.id === id);
  const agents = [...new Set(["", ...paths.flatMap((p) => [p.source, p.destination])])];
  const addresses = [...new Set(paths.map((p) => p.address))];
  const protocols = [...new Set(paths.map((p) => p.protocol ?? "udp"))];
  const nodeOf = new Map(paths.flatMap((p) => [[p.source, p.nodes[0]], [p.destination, p.nodes.at(-1)]] as const));
  const routes = paths.map((p) => p.nodes.slice(1, p.destination ? -1 : undefined).map(at));
  const measured = edges.flatMap((e, i) => (e.oneWay ? [i] : []));
  return create(GetTopologyResponseSchema, {
    nodes,
    columns: {
      edgeFrom: edges.map((e) => at(e.from)), edgeTo: edges.map((e) => at(e.to)), edgeRttNs: edges.map((e) => e.rttNs ?? 0n), edgeMeasured: edges.map((e) => e.measured ?? false),
      oneWayEdges: measured, oneWays: measured.map((i) => edges[i]?.oneWay ?? {}),
      agents, agentNodes: agents.map((a) => Math.max(0, at(nodeOf.get(a)))), addresses, protocols,
      routeLengths: routes.map((r) => r.length), routeNodes: routes.flat(),
      sources: paths.map((p) => agents.indexOf(p.source)), destinations: paths.map((p) => agents.indexOf(p.destination)),
      pathAddresses: paths.map((p) => addresses.indexOf(p.address)), pathProtocols: paths.map((p) => protocols.indexOf(p.protocol ?? "udp")),
      routes: paths.map((_, i) => i), arrives: paths.map((p) => p.destination !== ""), reached: paths.map((p) => p.reached ?? true),
      ageS: paths.map(() => 0), unchangedS: paths.map(() => 0), time: timestampFromMs(Date.now()),
    },
  });
}
