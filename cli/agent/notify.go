package agent

import (
	"net"
	"os"
)

// notify tells systemd, where it started us, how we are (sd_notify(3)). Whoever
// does not listen misses nothing.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	connection, err := net.Dial("unixgram", path)
	if err != nil {
		return
	}
	defer connection.Close()
	_, _ = connection.Write([]byte(state))
}
