package bus

import "github.com/nats-io/nats.go"

// flush waits until the bus has what a part sent that ends. It does not wait for a link that is down:
// what is sent over one is lost.
func flush(conn *nats.Conn) error {
	if !conn.IsConnected() {
		return nats.ErrDisconnected
	}
	return conn.FlushTimeout(closeTime)
}
