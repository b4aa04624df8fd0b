// Package pillionv1 has the messages of the API, generated from the .proto files
// in proto/, where every field is documented. Conversions to and from the types of
// package session are in package api.
package pillionv1
