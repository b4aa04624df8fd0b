// Package api is the public API: the services of the .proto files in proto/, the code
// generated from them (Connect, gRPC, gRPC-web and JSON on one port), conversion
// between its messages and the types of package session, and a client.
//
// Authorisation and implementation are in the server.
package api

import (
	_ "embed"

	"google.golang.org/protobuf/reflect/protoreflect"

	"pillion.dev/api/pillionv1"
)

// OpenAPI describes the unary calls in JSON, as OpenAPI 2.0. It is generated from
// the .proto files.
//
//go:embed openapi.json
var OpenAPI []byte

// Files describe all services, for those that walk them.
func Files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		pillionv1.File_agent_proto, pillionv1.File_session_proto, pillionv1.File_data_proto, pillionv1.File_flow_proto,
		pillionv1.File_topology_proto, pillionv1.File_server_proto,
	}
}
