package emulator

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
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
	want := []Packet{
		{1 << 40, 1e18, 2e18, 1514, 3, Delivered, true},
		{1 << 40, 1e18, 0, 1514, 3, LostRate, true},
	}
	var got int
	for p, err := range ReadPackets(bytes.NewReader(text)) {
		if err != nil || p != want[got] {
			t.Errorf("record %d is %+v, %v; want %+v", got, p, err, want[got])
		}
		got++
	}
	if got != len(want) {
		t.Errorf("got %d records, want %d", got, len(want))
	}
	var failed error
	for _, err := range ReadPackets(bytes.NewReader(text[:len(text)-1])) {
		failed = err
	}
	if failed == nil {
		t.Error("no error for a record that is cut")
	}
}

func FuzzReadPackets(f *testing.F) {
	f.Add([]byte(packetMagic))
	f.Add(append([]byte(packetMagic), make([]byte, packetSize+1)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		for p, err := range ReadPackets(bytes.NewReader(text)) {
			n++
			_ = p.Fate.String()
			_ = err
		}
		if n > len(text)/packetSize+1 {
			t.Errorf("%d records in %d bytes", n, len(text))
		}
	})
}
