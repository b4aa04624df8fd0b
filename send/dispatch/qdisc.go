package dispatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// discipline is a queueing discipline that holds packets until their launch time.
type discipline struct {
	kind    string        // fq or etf
	clock   int32         // of launch times
	offload bool          // the device holds the packets
	early   time.Duration // how long before its launch time a packet leaves the discipline
}

// errQdisc marks an interface without such a discipline.
var errQdisc = errors.New("queueing discipline holds no packets until their time (fq and etf do)")

// launches returns the discipline that all packets of the device pass.
func launches(device netlink.Link) (discipline, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
	request.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device.Attrs().Index)})
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if err != nil {
		return discipline{}, fmt.Errorf("list queueing disciplines: %w", err)
	}
	var found []discipline
	for _, m := range messages {
		head := nl.DeserializeTcMsg(m)
		if int(head.Ifindex) != device.Attrs().Index {
			continue
		}
		d, err := parseDiscipline(m[head.Len():])
		if err != nil {
			return discipline{}, err
		}
		switch d.kind {
		case "ingress", "clsact": // which hold nothing
		case "mq", "mqprio", "taprio": // whose children do
		case "fq", "etf":
			found = append(found, d)
		default:
			return discipline{}, fmt.Errorf("%w: %s", errQdisc, d.kind)
		}
	}
	if len(found) == 0 {
		return discipline{}, fmt.Errorf("%w: none", errQdisc)
	}
	if different := slices.IndexFunc(found, func(d discipline) bool { return d != found[0] }); different > 0 {
		return discipline{}, fmt.Errorf("%w: its queues differ: %+v, %+v", errQdisc, found[0], found[different])
	}
	return found[0], nil
}

// Attributes of etf (linux/pkt_sched.h): struct tc_etf_qopt in TCA_ETF_PARMS.
const (
	etfParameters     = 1
	etfParameterBytes = 12 // delta, clock, flags
	etfOffload        = 2
)

func parseDiscipline(b []byte) (d discipline, err error) {
	attributes, err := nl.ParseRouteAttrAsMap(b)
	if err != nil {
		return d, fmt.Errorf("read queueing discipline: %w", err)
	}
	d = discipline{kind: unix.ByteSliceToString(attributes[nl.TCA_KIND].Value), clock: unix.CLOCK_MONOTONIC}
	if d.kind != "etf" {
		return d, nil
	}
	options, err := nl.ParseRouteAttrAsMap(attributes[nl.TCA_OPTIONS].Value)
	if err != nil {
		return d, fmt.Errorf("read options of etf: %w", err)
	}
	parameters := options[etfParameters].Value
	if len(parameters) < etfParameterBytes {
		return d, errors.New("read options of etf: too short")
	}
	d.early = time.Duration(int32(binary.NativeEndian.Uint32(parameters)))
	d.clock = int32(binary.NativeEndian.Uint32(parameters[4:]))
	d.offload = binary.NativeEndian.Uint32(parameters[8:])&etfOffload != 0
	return d, nil
}
