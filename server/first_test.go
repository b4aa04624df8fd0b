package server_test

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/fstest"

	"pillion.dev/server"
)

// TestFirstStart: the first start is the first successful one, not the first attempt.
func TestFirstStart(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	folder := t.TempDir() + "/data"
	config := server.Config{Folder: folder, HTTP: busy.Addr().String(), NATSListen: "127.0.0.1:0", OMLOff: true, MemoryBytes: 256 << 20}
	err = server.Run(t.Context(), config, fstest.MapFS{"index.html": {}}, slog.New(slog.DiscardHandler), func(server.Welcome) {
		t.Error("the server is ready although its port is in use")
	})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("server on a port in use: %v", err)
	}
	for _, first := range []bool{true, false} {
		s := start(t, folder)
		if s.welcome.First != first {
			t.Errorf("first start is %t, want %t", s.welcome.First, first)
		}
		s.stop()
	}
}
