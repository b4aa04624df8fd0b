// Package commandtest is what the tests of the programs' command lines have in common: running
// the program itself, a server to talk to, and comparing documents with the code.
package commandtest

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/sealed"
	"pillion.dev/internal/version"
	"pillion.dev/server"
)

// asProgram is set in the environment of a process that a test starts as the program.
const asProgram = "PILLION_TEST_MAIN"

// Environment makes a process with the test's own executable run the program.
const Environment = asProgram + "=1"

// Main is the TestMain of a package with a program.
func Main(m *testing.M, program func(arguments []string) int) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(sealed.Main(m))
}

// CompareVersions fails the test unless the program of this package prints its name and its
// version both for a command and for the option.
func CompareVersions(t *testing.T, name string, command ...string) {
	t.Helper()
	for _, arguments := range [][]string{command, {"--version"}} {
		c := exec.Command(os.Args[0], arguments...)
		c.Env = append(os.Environ(), Environment)
		output, err := c.CombinedOutput()
		if want := name + " " + version.String() + "\n"; err != nil || string(output) != want {
			t.Errorf("%s %v: %q, %v; want %q", name, arguments, output, err, want)
		}
	}
}

// Serve runs a whole server in this process until stop is called or the test ends. Addresses
// that the configuration does not have are free ones on loopback.
func Serve(t *testing.T, config server.Config) (w server.Welcome, stop func()) {
	t.Helper()
	for _, address := range []*string{&config.HTTP, &config.NATSListen} {
		if *address == "" {
			*address = "127.0.0.1:0"
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan server.Welcome, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, config, fstest.MapFS{"index.html": {}}, slog.New(slog.DiscardHandler), func(w server.Welcome) { ready <- w })
	}()
	select {
	case w = <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("start server: %v", err)
	case <-time.After(hang.Limit):
		cancel()
		t.Fatal("the server is not ready after a minute")
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	t.Cleanup(stop)
	return w, stop
}
