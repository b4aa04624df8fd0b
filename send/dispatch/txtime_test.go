package dispatch

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestLaunchTimeIsRefused: without fq or etf, the socket option is accepted and ignored. It
// is neither trusted by name nor by a packet.
func TestLaunchTimeIsRefused(t *testing.T) {
	space, file, device := space(t)
	open := func() error {
		s, err := Open(Options{Device: "near0", Namespace: file, Mechanism: "txtime"})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := open(); !errors.Is(err, errQdisc) {
		t.Errorf("without a queue: %v", err)
	}
	in(t, space, func() error {
		return netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       1e9, Limit: 1e6, Buffer: 1e6,
		})
	})
	if err := open(); !errors.Is(err, errQdisc) || !strings.Contains(err.Error(), "tbf") {
		t.Errorf("tbf: %v", err)
	}
	l := &launcher{options: Options{Device: "near0"}, discipline: discipline{kind: "fq", clock: unix.CLOCK_MONOTONIC}}
	in(t, space, func() (err error) {
		if l.journal, err = newJournal(l.options); err != nil {
			return err
		}
		l.journal.proof = true
		if err := l.prepare(device); !errors.Is(err, errIgnored) {
			t.Errorf("a queue that ignores launch times: %v", err)
		}
		return l.Close()
	})
}

func TestParseDiscipline(t *testing.T) {
	parameters := make([]byte, etfParameterBytes)
	binary.NativeEndian.PutUint32(parameters, 200_000)
	binary.NativeEndian.PutUint32(parameters[4:], unix.CLOCK_TAI)
	binary.NativeEndian.PutUint32(parameters[8:], etfOffload)
	etf := func(parameters []byte) []byte {
		options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
		options.AddRtAttr(etfParameters, parameters)
		return append(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("etf")).Serialize(), options.Serialize()...)
	}
	for name, row := range map[string]struct {
		message []byte
		want    discipline
		ok      bool
	}{
		"fq":    {nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("fq")).Serialize(), discipline{kind: "fq", clock: unix.CLOCK_MONOTONIC}, true},
		"etf":   {etf(parameters), discipline{kind: "etf", clock: unix.CLOCK_TAI, offload: true, early: 200 * time.Microsecond}, true},
		"short": {etf(parameters[:8]), discipline{}, false},
	} {
		if got, err := parseDiscipline(row.message); (err == nil) != row.ok || row.ok && got != row.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
