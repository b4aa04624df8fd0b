package clickhouse

import (
	"io"
	"net"
	"testing"
)

// What ZooKeeper 3.8 answers to srvr, before and after it serves.
func TestCoordinates(t *testing.T) {
	for answer, serves := range map[string]bool{
		"This ZooKeeper instance is not currently serving requests\n":                 false,
		"Zookeeper version: 3.8.0\nConnections: 1\nMode: standalone\nNode count: 5\n": true,
		"": false,
	} {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			_, _ = io.ReadFull(server, make([]byte, len("srvr")))
			_, _ = io.WriteString(server, answer)
		}()
		err := Coordinates(client)
		client.Close()
		if (err == nil) != serves {
			t.Errorf("%q: %v, want serves %t", answer, err, serves)
		}
	}
}
