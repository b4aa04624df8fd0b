//go:build verify

package web

import "testing"

// TestVerifyFlood: 2,048 connections and 500 MB of bodies, of one address and of ten; and 256 connections with 90 streams.
func TestVerifyFlood(t *testing.T) {
	floodAPI(t, defaultConnections, 500<<20, 1)
	floodAPI(t, defaultConnections, 500<<20, 10)
	floodStreams(t, defaultSourceConnections)
}
