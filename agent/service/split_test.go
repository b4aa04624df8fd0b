package service

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"pillion.dev/agent/loader"
)

// TestStopBeforeStart: an agent that cannot join since its server does not answer ends when it is
// asked to, without an error.
func TestStopBeforeStart(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections in the kernel, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	near, far := net.Pipe()
	folder := t.TempDir()
	t.Chdir(folder) // where confine starts this part
	told := setup{
		Config: Config{Server: mute.Addr().String(), Name: "a", Folder: folder}, Token: "pj_" + strings.Repeat("0", 64) + "_secret", Spool: 1 << 20, Reported: 1 << 20,
	}
	ended := make(chan error, 1)
	go func() {
		ended <- RunUnprivileged(t.Context(), far, func(bool) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) })
	}()
	server, err := loader.NewServer(near, told, func() {})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- server.Run(t.Context(), func() *loader.Loader { t.Error("the loader was started"); return nil })
	}()
	asked, err := mute.Accept() // it is joining
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	server.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
