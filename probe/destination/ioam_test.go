package destination

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"

	"pillion.dev/wire/test/codec"
)

// foreignIOAM are edge-to-edge options that others write. %T stands for the time.
var foreignIOAM = []struct {
	name     string
	header   func(time []byte) codec.Header
	loss     bool
	delay    bool
	restored bool // as our source writes it
}{
	{"32 bits and time", func(at []byte) codec.Header { return edgeHeader(0, codec.E2ESequence32, 5, at) }, true, true, false},
	{"64 bits and time", func(at []byte) codec.Header { return edgeHeader(0, codec.E2ESequence64, 7<<32|5, at) }, true, true, false},
	{"another namespace", func(at []byte) codec.Header { return edgeHeader(9, codec.E2ESequence32, 0x80000005, at) }, true, true, false},
	{"no time", func([]byte) codec.Header { return edgeHeader(0, codec.E2ESequence32, 5, nil) }, true, false, false},
	{"another namespace, no number", func(at []byte) codec.Header { return edgeHeader(9, 0, 0, at) }, false, true, false},
}

// edgeHeader returns a header with an edge-to-edge option. at: seconds and fraction, or nothing
func edgeHeader(namespace, number uint16, n uint64, at []byte) codec.Header {
	e := &codec.E2E{Namespace: namespace, Fields: number, Number: n}
	if at != nil {
		e.Fields |= codec.E2ESeconds | codec.E2EFraction
		e.Seconds, e.Fraction = binary.BigEndian.Uint32(at), binary.BigEndian.Uint32(at[4:])
	}
	return codec.Header{E2E: e}
}

// TestForeignIOAM: options of others are read, with times in each format, and stay in their packets.
func TestForeignIOAM(t *testing.T) {
	formats := []struct {
		name   string
		format IOAMTime
		write  func(time.Time) []byte
		unit   time.Duration
	}{
		{"ntp", IOAMTimeNTP, func(at time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(codec.TimestampOf(at))) }, time.Nanosecond},
		{"ptp", IOAMTimePTP, func(at time.Time) []byte {
			return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(at.Unix()+37)), uint32(at.Nanosecond()))
		}, time.Nanosecond},
		{"posix", IOAMTimePOSIX, func(at time.Time) []byte {
			return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(at.Unix())), uint32(at.Nanosecond()/1000))
		}, time.Microsecond},
	}
	for _, format := range formats {
		d := open(t, Settings{IOAMTime: format.format})
		for _, row := range foreignIOAM {
			for _, hook := range hooks {
				t.Run(format.name+"/"+row.name+"/"+hook.name, func(t *testing.T) {
					sent := time.Now().Add(-5 * time.Millisecond)
					in := frame(behind(codec.AppendHeader(nil, 17, row.header(format.write(sent))), 60), hook.tags...)
					before := d.mustTally(t)
					checkFrame(t, run(t, hook.program(d), in, 0), in)
					after := d.mustTally(t)
					if after.Kept-before.Kept != 1 || after.Packets-before.Packets != 1 {
						t.Fatalf("tally went from %+v to %+v", before, after)
					}
					f := d.takeFlow(t)
					if (f.Delays != 0) != row.delay || (f.Window.Begun != 0) != row.loss {
						t.Fatalf("%d delays, window %+v", f.Delays, f.Window)
					}
					if row.loss && (f.Window.Next != 6 || f.Window.Unique != 1) {
						t.Errorf("window %+v, want number 5", f.Window)
					}
					want := time.Unix(0, int64(f.FirstNs)).Sub(sent)
					if away := time.Duration(f.DelaySum) - want; row.delay && (away < -time.Nanosecond || away > format.unit) {
						t.Errorf("delay %v, want %v", time.Duration(f.DelaySum), want)
					}
				})
			}
		}
	}
}

// TestOwnIOAMWithOtherTimes: the format is that of others; our own marks are read and taken out as ever.
func TestOwnIOAMWithOtherTimes(t *testing.T) {
	d := open(t, Settings{IOAMTime: IOAMTimePOSIX})
	at := binary.BigEndian.AppendUint64(nil, uint64(codec.TimestampOf(time.Now().Add(-5*time.Millisecond))))
	in := frame(behind(codec.AppendHeader(nil, 17, edgeHeader(0, codec.E2ESequence32, 0x80000005, at)), 60))
	checkFrame(t, run(t, d.objects.DestinationTc, in, 0), frame(behind(nil, 17)))
	if f := d.takeFlow(t); f.DelaySum < int64(5*time.Millisecond) || f.DelaySum > int64(time.Second) {
		t.Errorf("delay %v", time.Duration(f.DelaySum))
	}
}

// TestBrokenIOAM: a fraction that is none makes no mark, and a number or time without its option neither.
func TestBrokenIOAM(t *testing.T) {
	d := open(t, Settings{IOAMTime: IOAMTimePTP})
	for _, row := range []struct{ name, options, reason string }{
		{"fraction of more than a second", "0100" + "1112" + "00030000" + "7000" + "00000005" + "65a00000" + "3b9aca00", "malformed"},
		{"shorter than its fields", "0100" + "110a" + "00030000" + "7000" + "00000005", "malformed"},
		{"longer than its fields", "0100" + "110e" + "00030000" + "4000" + "00000005" + "00000000" + "01020000", "malformed"},
		{"without fields", "0100" + "1106" + "00030000" + "0000" + "01020000", "malformed"},
		{"no type", "0100" + "1102" + "0003", "malformed"},
		{"twice", "0100" + "110a" + "00030000" + "4000" + "80000005" + "110a" + "00030000" + "4000" + "80000005" + "01020000", "malformed"},
		{"tag without a number", "0100" + "110e" + "00030000" + "3000" + "65a00000" + "00000000" + "3e0501" + "11223344" + "0103000000", "malformed"},
		{"direct export", "0100" + "1112" + "00040000" + "00c0" + "b0000000" + "12345678" + "80000005", "unmarked"},
		{"fields of a later version", "0100" + "110a" + "00030000" + "4800" + "80000005", "unmarked"},
	} {
		for _, hook := range hooks[:2] {
			t.Run(row.name+"/"+hook.name, func(t *testing.T) {
				if _, err := hex.DecodeString(row.options); err != nil {
					t.Fatal(err)
				}
				in := frame(behind(optionsHeader(t, row.options, 0), 60))
				before := d.mustTally(t)
				checkFrame(t, run(t, hook.program(d), in, 0), in)
				after := d.mustTally(t)
				got := "unmarked"
				if after.Reasons[malformed] != before.Reasons[malformed] {
					got = malformed
				}
				if got != row.reason || after.Packets != before.Packets {
					t.Errorf("%s, tally %+v", got, after)
				}
			})
		}
	}
}
