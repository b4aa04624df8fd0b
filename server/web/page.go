package web

import (
	"encoding/json"
	"net/http"

	"pillion.dev/api"
)

const welcome = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Pillion</title>
<style>body { font: 1rem/1.5 sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }</style>
<h1>Pillion server</h1>
<p>Pillion measures networks with the traffic that is already on them.
This port is its API: Connect, gRPC, gRPC-web and JSON.</p>
<ul>
<li>On the command line: <code>pillion agents</code>, <code>pillion session create</code>, <code>pillion tail flows</code></li>
<li>Calls and messages: <a href="/openapi.json">/openapi.json</a></li>
<li>A stream as a file: <code>GET /export?stream=flows&amp;format=csv</code>, also <code>arrow</code> and <code>parquet</code></li>
<li>Prometheus: <a href="/metrics">/metrics</a></li>
<li>Health: <a href="/healthz">/healthz</a></li>
</ul>
<p>All but health and this page need the header <code>Authorization: Bearer TOKEN</code>.</p>
</html>
`

func serveWelcome(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Write([]byte(welcome))
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(api.OpenAPI)
}

// serveHealth answers 200 or 503, with the parts as JSON.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	parts, ok := s.health(r.Context())
	status := struct {
		Status string `json:"status"`
		Parts  []Part `json:"parts"`
	}{"ok", parts}
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		status.Status = "failing"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(status)
}
