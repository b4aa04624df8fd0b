package collect

import (
	"io"
	"net"
	"testing"
	"time"
)

// FuzzConnection: whatever a client sends, the collector ends the connection and counts.
func FuzzConnection(f *testing.F) {
	f.Add([]byte(header("d", 5, oneStream) + "0\t1\t1\t1\ta\n"))
	f.Add([]byte(header("d", 5, oneStream+session) + "0\t1\t1\t1\ta\n0\t1\t-4\t1\ta\nx\n0\t0\t1\t.\tschema\t1 app_t n:[double]\n0\t1\t3\t2 1.5 nan\n"))
	f.Add([]byte("protocol: 4\ncontent: binary\nschema: 1 a n:int32\npillion-session: 0000000000000001\n\n\xaa\xaa\x01\x00\x0f\x01\x01\x05\x00\x00\x00\x01\x03\x00\x00\x00\x00\x00\x05\x00"))
	f.Add([]byte("protocol: 1\nstart_time: 1e11\nschema: 3 a time:string oml_seq:int32 agent:bool\n\nnan\t3\t9223372036854775807\t\xff\t1\tx\n-inf\t3\t-9223372036854775808\t\xff\t1\tx\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := New(Options{Backend: newShelf(), Linger: time.Hour, Rows: 4})
		ours, theirs := net.Pipe()
		go func() {
			theirs.Write(text)
			theirs.Close()
		}()
		go io.Copy(io.Discard, theirs)
		ended := make(chan struct{})
		go func() {
			all.serve(ours, "", "test")
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("the connection does not end")
		}
	})
}
