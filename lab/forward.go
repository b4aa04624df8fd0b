package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"pillion.dev/internal/netns"
)

// startForward starts the process that forwards connections from this machine's
// loopback to the server in the lab.
func (b *builder) startForward(ctx context.Context) error {
	listener := b.forward
	if listener == nil {
		var err error
		address := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: b.spec.Service.Forward}
		if listener, err = net.ListenTCP("tcp4", &address); err != nil {
			return fmt.Errorf("forward to lab %s: %w", b.spec.Name, err)
		}
		defer listener.Close()
	}
	file, err := listener.File()
	if err != nil {
		return fmt.Errorf("forward to lab %s: %w", b.spec.Name, err)
	}
	defer file.Close()
	if err := b.startHelper(ctx, "forward", []*os.File{file}, "forward", "--lab", b.spec.Name); err != nil {
		return err
	}
	return b.state.pointToken(b.spec.Service)
}

// tokenRoot contains, for each local port that is forwarded to a lab, a symbolic link
// <port>.token to the token of the lab's server, where pillion looks for it.
const tokenRoot = "/run/pillion/forward"

// pointToken creates that link, replacing one left by a crash.
func (s state) pointToken(service *Service) error {
	port := service.Forward
	if err := os.MkdirAll(tokenRoot, 0o755); err != nil {
		return fmt.Errorf("point to token: %w", err)
	}
	_ = os.Remove(tokenLink(port)) // usually absent
	if err := os.Symlink(s.tokenFile(service), tokenLink(port)); err != nil {
		return fmt.Errorf("point to token: %w", err)
	}
	return nil
}

// forgetToken removes the link if it is this lab's.
func (s state) forgetToken(spec *Spec) error {
	if spec.Service == nil || spec.Service.Forward == 0 {
		return nil
	}
	port := spec.Service.Forward
	if to, err := os.Readlink(tokenLink(port)); err != nil || to != s.tokenFile(spec.Service) {
		return nil // absent, or of the lab that has the port now
	}
	return os.Remove(tokenLink(port))
}

func tokenLink(port int) string { return filepath.Join(tokenRoot, fmt.Sprintf("%d.token", port)) }

func (s state) tokenFile(service *Service) string {
	return filepath.Join(s.serverFolder(service), "admin.token")
}

// RunForward is the main function of a forwarder, which up starts with the listener as file 3. It returns when ctx
// is done.
func RunForward(ctx context.Context, name string) error {
	if err := awaitGo(); err != nil {
		return err
	}
	l := &Lab{state: stateOf(name)}
	if err := l.state.load("spec.json", &l.Spec); err != nil {
		return err
	}
	file := os.NewFile(3, "listener")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("forward to lab %s: %w", name, err)
	}
	fmt.Print(readyLine)
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var namespaces []string
	for _, host := range l.Spec.Service.servers() {
		namespaces = append(namespaces, l.Namespace(host))
	}
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("forward to lab %s: %w", name, err)
		}
		connections.Go(func() {
			if err := forward(ctx, client, namespaces); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
}

// forward connects a client to the first server that accepts the connection, inside its
// namespace.
func forward(ctx context.Context, client net.Conn, namespaces []string) error {
	defer client.Close()
	server, err := dialFirst(namespaces)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { server.Close(); client.Close() })
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { pipe(client, server) })
	pipe(server, client)
	back.Wait()
	return nil
}

func dialFirst(namespaces []string) (server net.Conn, err error) {
	var failed error
	for _, namespace := range namespaces {
		err := netns.Do(namespace, func() (err error) {
			server, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", servicePort))
			return err
		})
		if err == nil {
			return server, nil
		}
		failed = errors.Join(failed, fmt.Errorf("reach server in %s: %w", namespace, err))
	}
	return nil, failed
}

// pipe copies until one side ends, and half-closes the other.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from) // both ends notice errors themselves
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}
