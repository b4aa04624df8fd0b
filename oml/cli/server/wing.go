// Package server lets pillion-server receive what applications report by OML's protocol.
package server

import (
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp/collect"
	oml "pillion.dev/oml/server"
	"pillion.dev/server"
)

// backend is a server.ApplicationBackend.
type backend struct {
	*oml.Backend
	options collect.Options
}

// Collector implements server.ApplicationBackend.
func (b backend) Collector() application.Collector { return collect.New(b.options) }

// Register adds the collector to the server.
func Register() {
	server.RegisterApplications(func(o server.ApplicationOptions) (server.ApplicationBackend, error) {
		b, err := oml.New(o.Store, o.Ingest, o.Archive, oml.Quota{Domains: o.Domains, Tables: o.Tables}, o.Clock, o.Log)
		return backend{b, collect.Options{Backend: b, PerSource: o.Connections, Refused: o.Refused, Log: o.Log, Feedback: o.Feedback}}, err
	})
}
