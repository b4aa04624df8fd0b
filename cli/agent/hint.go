package agent

import (
	"errors"
	"io"
	"io/fs"
	"os/exec"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/agent"
	"pillion.dev/agent/capture"
	"pillion.dev/agent/confine"
	"pillion.dev/agent/estimator"
	"pillion.dev/agent/report"
	"pillion.dev/agent/service"
	"pillion.dev/agent/tester"
	"pillion.dev/cli/command"
	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/router"
	"pillion.dev/probe/source"
	"pillion.dev/send"
	"pillion.dev/send/arrival"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
	"pillion.dev/send/search"
	"pillion.dev/send/stream"
	"pillion.dev/wire/fivetuple"
)

// hints tell a user what to do, by cause. The first match applies.
var hints = []struct {
	cause error
	hint  string
}{
	{command.ErrUsage, "see COMMAND --help"},
	{service.ErrConfig, "correct the file; docs/reference/agent.md lists the keys"},
	{confine.ErrUser, "--user takes a name, or a number"},
	{confine.ErrCapability, "grant it: systemd by CapabilityBoundingSet, container runtimes by --cap-add; docs/reference/agent.md, Privileges"},
	{confine.ErrFolder, "see COMMAND --help"},
	{command.ErrValue, "see COMMAND --help for the values of options"},
	{hook.ErrNotRoot, "BPF programs require root: use sudo"},
	{hook.ErrNoDevice, "ip link lists the interfaces of this network namespace"},
	{hook.ErrLink, "use an interface with Ethernet or raw IP packets; xdp also requires support in the driver"},
	{hook.ErrMTU, "lower the MTU with ip link set DEV mtu BYTES, on a veth that of the other end; or use --hook tc, which takes any"},
	{hook.ErrOldKernel, "uname -r prints the kernel version; README.md lists the requirements"},
	{hook.ErrRefused, "privileges do not change that; pillion-agent doctor says what else this kernel lacks, README.md lists the requirements"},
	{hook.ErrFull, "stop the software that attached them; bpftool net show dev DEV lists them. A restart of the host removes those that nothing owns any more"},
	{hook.ErrOwned, "stop the other process first: pgrep -a pillion-agent lists it"},
	{hook.ErrRuntime, "use sudo; devices are locked in /run/pillion/devices, which only its user may write to"},
	{errNetns, "ip netns list and pillion-agent lab status list names; a path or a process ID also works"},
	{router.ErrOptions, "see pillion-agent router --help for the values of an option"},
	{fivetuple.ErrFilter, "the form is 'src=P dst=P proto=tcp sport=N dport=N', each part at most once"},
	{source.ErrSampling, "for example --every 10, --random 10, --hash 10 or --min-gap 100us"},
	{destination.ErrRecords, "--record-bytes 4194304 is the default"},
	{agent.ErrNotRunning, "start one: pillion-agent source --dev DEV"},
	{lab.ErrNotRoot, "labs require root: use sudo"},
	{lab.ErrSpec, "correct the file; lab/README.md documents the keys"},
	{lab.ErrNoLab, "pillion-agent lab list lists running labs; pillion-agent lab up FILE starts one"},
	{lab.ErrMany, "select one with --lab NAME, or lab down NAME"},
	{lab.ErrNoHost, "pillion-agent lab status lists the hosts"},
	{lab.ErrNoLink, "pillion-agent lab status lists the links; only emulated links have a truth file"},
	{lab.ErrForeign, "rename the lab in its file, or delete the namespace with ip netns delete"},
	{lab.ErrBroken, "restart the lab; the log is /run/pillion/lab/LAB/LINK.log"},
	{emulator.ErrRefused, "pillion-agent lab truth --json prints the current settings"},
	{lab.ErrBusy, "wait for the other pillion-agent lab command to finish"},
	{lab.ErrNoTun, "emulated links require tun/tap: CONFIG_TUN and /dev/net/tun"},
	{dispatch.ErrMechanism, "pillion-agent send --help lists the mechanisms; omit --mechanism to use the first that works"},
	{schedule.ErrFile, "docs/reference/schedules.md documents the format of schedules"},
	{schedule.ErrPattern, "see pillion-agent send --help for the options of a pattern"},
	{frame.ErrHeader, "see pillion-agent send --help for the options of headers and sizes"},
	{tester.ErrOptions, "see COMMAND --help for the options and their units"},
	{search.ErrRange, "--resolution and --step are shares such as 0.5%, and --max-rate is above 10 frames per trial"},
	{tester.ErrPath, "check the addresses and routes on the way, that the device under test forwards, and --receive-dev and --receive-netns"},
	{stream.ErrConnect, "start pillion-agent discard --listen ADDRESS:PORT at the far end, and check the route to it"},
	{send.ErrUnreachable, "check the address and the routes of the network namespace (ip route get ADDRESS); an IPv6 address with a port is written [ADDRESS]:PORT"},
	{estimator.ErrToken, "give the sender the same token: --token-file FILE"},
	{estimator.ErrReceiver, "start pillion-agent receive on the far host; both sides need the same --token-file"},
	{arrival.ErrFlow, "the packets must be UDP, TCP or ICMP; see pillion-agent estimate --help"},
	{capture.ErrFilter, "docs/howto/capture.md documents filters: '[tcp|udp] [src|dst] host A, net P, port N', not, and, or, parentheses"},
	{capture.ErrOptions, "for example pillion-agent capture --dev eth0, or --read FILE"},
	{capture.ErrDevice, "ip link lists the interfaces of this network namespace"},
	{capture.ErrLink, "use a supported link layer (docs/howto/capture.md)"},
	{capture.ErrRights, "use sudo"},
	{capture.ErrFile, "rows before the error are valid"},
	{report.ErrURI, "for example --oml 127.0.0.1:3003, --oml file:rows.oml or --oml file:-"},
	{exec.ErrNotFound, "install the program, or specify its path"},
	{fs.ErrNotExist, "check the path"},
	{fs.ErrPermission, "use sudo, or check the permissions of the file"},
	{unix.EISDIR, "specify a file, not a directory"},
}

// fail prints an error and returns the exit code.
func fail(w io.Writer, err error) int {
	if part := (service.Ended{}); errors.As(err, &part) {
		return part.Code
	}
	if other := (exitError{}); errors.As(err, &other) {
		command.Fail(w, "pillion-agent", err, nil)
		return other.code
	}
	if refused := (*ebpf.VerifierError)(nil); errors.As(err, &refused) && len(refused.Log) > 0 {
		err = hook.Explain(err) // programs of package send
	}
	var all []command.Hint
	for _, h := range hints {
		all = append(all, command.Correctable(command.Is(h.cause), h.hint))
	}
	return command.Fail(w, "pillion-agent", err, all)
}
