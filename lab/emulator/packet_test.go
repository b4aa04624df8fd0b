package emulator

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pillion.dev/lab/test/packets"
)

func TestPacketLogRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := createPacketLog(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &frame{index: 1 << 40, size: 1514, readWall: 1e18, marked: true, flow: &flow{id: 3}}
	log.write(f, 2e18, Delivered)
	log.write(f, 0, Lost(lostRate))
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	delivered := packets.Packet{Index: 1 << 40, Read: 1e18, Written: 2e18, Size: 1514, Flow: 3, Fate: uint8(Delivered), Marked: true}
	lost := delivered
	lost.Written, lost.Fate = 0, uint8(LostRate)
	want := []packets.Packet{delivered, lost}
	var got int
	for p, err := range packets.Read(bytes.NewReader(text)) {
		if err != nil || p != want[got] {
			t.Errorf("record %d is %+v, %v; want %+v", got, p, err, want[got])
		}
		got++
	}
	if got != len(want) {
		t.Errorf("got %d records, want %d", got, len(want))
	}
	var failed error
	for _, err := range packets.Read(bytes.NewReader(text[:len(text)-1])) {
		failed = err
	}
	if failed == nil {
		t.Error("no error for a truncated record")
	}
}

func FuzzReadPackets(f *testing.F) {
	f.Add([]byte(packetMagic))
	f.Add(append([]byte(packetMagic), make([]byte, packetSize+1)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		for range packets.Read(bytes.NewReader(text)) {
			n++
		}
		if n > len(text)/packetSize+1 {
			t.Errorf("%d records in %d bytes", n, len(text))
		}
	})
}
