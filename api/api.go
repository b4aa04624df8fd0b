// Package api is the public API: the services of the .proto files in proto/, the code
// generated from them (Connect, gRPC, gRPC-web and JSON on one port), conversion
// between its messages and the types of package session, and a client.
//
// Authorisation and implementation are in the server.
package api

import _ "embed"

// OpenAPI describes the unary calls in JSON, as OpenAPI 2.0. It is generated from
// the .proto files.
//
//go:embed openapi.json
var OpenAPI []byte
