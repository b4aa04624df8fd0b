package free

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("PILLION_TEST_PORTS") == "" {
		os.Exit(m.Run())
	}
	for range 1000 {
		port, err := Find()
		if err != nil {
			panic(err)
		}
		fmt.Println(port)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // the ports are this process's until it ends
}

// TestPort: no port is returned twice, neither to a process nor to two of them.
func TestPort(t *testing.T) {
	seen := map[string]bool{}
	once := func(port string) {
		if seen[port] {
			t.Errorf("port %s was returned before", port)
		}
		seen[port] = true
	}
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "PILLION_TEST_PORTS=1")
	input, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		var port string
		if _, err := fmt.Fscanln(output, &port); err != nil {
			t.Fatal(err)
		}
		once(port)
		once(fmt.Sprint(Port(t)))
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	if address := Address(t); !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("address %s", address)
	}
}
