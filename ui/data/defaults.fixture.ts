// Specifications for tests: that which the server completes from an empty one, and one with all fields.
import { fromJson, isFieldSet, type DescMessage, type Message } from "@bufbuild/protobuf";
import { SessionSpecSchema } from "../gen/session_pb.ts";

export const defaultSpec = fromJson(SessionSpecSchema, {
  modules: ["delay", "loss"], encoding: "udp-option,tcp-option,native,udp", stampEvery: 16, authentication: "auto", family: "any", interval: "1s", granularity: "flow", lease: "10s", trace: "60s", hops: "traceroute", hopsGap: "0.1s", flow: "src,dst,proto,sport,dport", idle: "60s", block: "1s",
});

/** A specification in which no field is empty or has its default; emptyFields finds one that is missing. */
export const fullSpec = fromJson(SessionSpecSchema, {
  name: "x", sources: ["site=north", "a"], destinations: ["*"], both: true, modules: ["loss"], encoding: "shim,altmark", stampEvery: 1, sparseMarks: true, authentication: "on", family: "ipv4", filters: ["proto=tcp dport=443", "dst=10.0.0.1"],
  sampling: { every: 10, minGap: "0.0001s" }, samplingFor: { a: { random: 3 } }, interval: "5s", granularity: "host", records: true, device: { a: "eth0" }, transit: { b: "10.1.0.0/16,10.2.0.0/16" }, waypoints: ["r3"], routers: ["r1", "r2"], points: [{ name: "load", agents: ["a", "role=edge"], options: { size: "5", burst: "1s" } }],
  lease: "120s", trace: "-1s", hops: "ioam", hopsGap: "1s", flow: "src,dst", flows: 2048, idle: "30s", block: "5s", start: "2027-01-01T09:00:00Z", duration: "86400s", cron: "0 9 * * 1-5", timeZone: "Europe/Berlin",
});

/** The names of fields that a message leaves empty. */
export const emptyFields = (schema: DescMessage, message: Message): string[] => schema.fields.filter((f) => !isFieldSet(message, f)).map((f) => f.name);
