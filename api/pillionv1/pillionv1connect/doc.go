// Package pillionv1connect has the clients and handlers of the API's services,
// generated from the .proto files in proto/. Package server/web serves them.
package pillionv1connect
