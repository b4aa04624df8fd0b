package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Discard accepts connections and discards what they receive (RFC 863), until the context
// ends. It returns the number of connections and bytes.
func Discard(ctx context.Context, l net.Listener) (connections, bytes uint64, err error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	var read atomic.Uint64
	for {
		c, err := l.Accept()
		if err != nil {
			all.Wait()
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				err = nil
			}
			return connections, read.Load(), err
		}
		connections++
		all.Go(func() {
			defer c.Close()
			ended := context.AfterFunc(ctx, func() { c.Close() })
			defer ended()
			n, _ := io.Copy(io.Discard, c) // a connection that ends with an error has ended
			read.Add(uint64(n))
		})
	}
}
