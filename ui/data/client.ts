// The connection to the server: one client per service, with the token
// of the user.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AgentService } from "../gen/agent_pb.ts";
import { AlarmService } from "../gen/alarm_pb.ts";
import { DataService } from "../gen/data_pb.ts";
import { FlowService } from "../gen/flow_pb.ts";
import { ServerService } from "../gen/server_pb.ts";
import { SessionService } from "../gen/session_pb.ts";
import { TopologyService } from "../gen/topology_pb.ts";
import { refused, token } from "./account.ts";
import { reached, unreached } from "./link.ts";

/** Adds the token and records whether the server is reachable. */
const bearer: Interceptor = (next) => async (request) => {
  const secret = token.peek();
  if (secret) request.header.set("Authorization", `Bearer ${secret}`);
  try {
    const answer = await next(request);
    reached();
    return answer;
  } catch (fault) {
    note(fault);
    throw fault;
  }
};

/** Records an error: server unreachable, token rejected, or neither. */
export function note(fault: unknown): void {
  const error = ConnectError.from(fault);
  if (error.code === Code.Canceled) return;
  if (isUnreachable(error)) unreached(error.rawMessage);
  else reached();
  if (error.code === Code.Unauthenticated) refused(error.rawMessage);
}

/** Reports whether an error means that the server is unreachable. */
export function isUnreachable(error: ConnectError): boolean {
  return error.code === Code.Unavailable || (error.code === Code.Unknown && error.cause instanceof TypeError);
}

/** An error as one sentence for users, without its code. */
export function sentence(fault: unknown): string {
  const error = ConnectError.from(fault);
  if (isUnreachable(error)) return "The server is unreachable.";
  const text = error.rawMessage || String(fault);
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** The transport of all clients. */
export const transport = createConnectTransport({ baseUrl: location.origin, useBinaryFormat: true, interceptors: [bearer] });

export const agentClient = createClient(AgentService, transport);
export const alarmClient = createClient(AlarmService, transport);
export const dataClient = createClient(DataService, transport);
export const flowClient = createClient(FlowService, transport);
export const serverClient = createClient(ServerService, transport);
export const sessionClient = createClient(SessionService, transport);
export const topologyClient = createClient(TopologyService, transport);
