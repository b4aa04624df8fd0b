package doctor

import (
	"net/netip"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

var testToken = []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

func answerOf(t testing.TB, kind icmp.Type, sequence int, token []byte) []byte {
	t.Helper()
	text, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{ID: 9, Seq: sequence, Data: token}}).Marshal(nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestReadEcho(t *testing.T) {
	for _, row := range []struct {
		name     string
		message  []byte
		six      bool
		sequence int
		ok       bool
	}{
		{"IPv4 answer", answerOf(t, ipv4.ICMPTypeEchoReply, 2, testToken), false, 2, true},
		{"IPv6 answer", answerOf(t, ipv6.ICMPTypeEchoReply, 1, testToken), true, 1, true},
		{"answer of the other family", answerOf(t, ipv4.ICMPTypeEchoReply, 1, testToken), true, 0, false},
		{"answer to another", answerOf(t, ipv4.ICMPTypeEchoReply, 2, []byte("other")), false, 0, false},
		{"answer to what was never sent", answerOf(t, ipv4.ICMPTypeEchoReply, echoTries, testToken), false, 0, false},
		{"our own echo", echoMessage(netip.MustParseAddr("127.0.0.1"), 1, testToken), false, 0, false},
		{"our own echo of IPv6", echoMessage(netip.MustParseAddr("::1"), 1, testToken), true, 0, false},
		{"nothing", nil, false, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if sequence, ok := readEcho(row.message, row.six, testToken); sequence != row.sequence || ok != row.ok {
				t.Errorf("got %d, %t, want %d, %t", sequence, ok, row.sequence, row.ok)
			}
		})
	}
}

func FuzzReadEcho(f *testing.F) {
	f.Add(answerOf(f, ipv4.ICMPTypeEchoReply, 2, testToken), false)
	f.Add(answerOf(f, ipv6.ICMPTypeEchoReply, 1, testToken), true)
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 0, 0x45}, false)
	f.Fuzz(func(t *testing.T, message []byte, six bool) {
		if sequence, ok := readEcho(message, six, testToken); ok && (sequence < 0 || sequence >= echoTries) {
			t.Errorf("answers echo %d, which was not sent", sequence)
		}
	})
}
