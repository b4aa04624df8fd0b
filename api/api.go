// Package api is the one door for users: the services of the .proto files in
// proto/, the code generated from them (Connect, gRPC, gRPC-web and JSON on one
// port), conversion between its messages and those of package session, and a
// client.
package api
