// The specification that the server completes from an empty one, for tests.
import { fromJson } from "@bufbuild/protobuf";
import { SessionSpecSchema } from "../gen/session_pb.ts";

export const defaultSpec = fromJson(SessionSpecSchema, {
  modules: ["delay", "loss"], encoding: "udp-option,tcp-option,native,udp", stampEvery: 16, family: "any", interval: "1s", granularity: "flow", lease: "10s", trace: "60s",
});
