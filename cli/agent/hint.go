package agent

import (
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/agent"
	"pillion.dev/agent/confine"
	"pillion.dev/agent/report"
	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/wire/fivetuple"
)

// hints tell a user what to do, by cause. The first match applies: one of these, one of a wing, or
// one of the last, which fit many errors.
var hints = []command.Hint{
	command.Correctable(command.Is(command.ErrUsage), "see COMMAND --help"),
	command.Correctable(command.Is(service.ErrConfig), "correct the file; docs/reference/agent.md lists the keys"),
	command.Correctable(command.Is(confine.ErrUser), "--user takes a name, or a number"),
	command.Correctable(command.Is(confine.ErrCapability), "grant it: systemd by CapabilityBoundingSet, container runtimes by --cap-add; docs/reference/agent.md, Privileges"),
	command.Correctable(command.Is(confine.ErrFolder), "see COMMAND --help"),
	command.Correctable(command.Is(command.ErrValue), "see COMMAND --help for the values of options"),
	command.Correctable(command.Is(hook.ErrNotRoot), "BPF programs require root: use sudo"),
	command.Correctable(command.Is(hook.ErrNoDevice), "ip link lists the interfaces of this network namespace"),
	command.Correctable(command.Is(hook.ErrLink), "use an interface with Ethernet or raw IP packets; xdp also requires support in the driver"),
	command.Correctable(command.Is(hook.ErrMTU), "lower the MTU with ip link set DEV mtu BYTES (of a veth, the MTU of its peer); or use --hook tc, which takes any"),
	command.Correctable(command.Is(hook.ErrOldKernel), "uname -r prints the kernel version; README.md lists the requirements"),
	command.Correctable(command.Is(hook.ErrRefused), "privileges do not change that; pillion-agent doctor says what else this kernel lacks, README.md lists the requirements"),
	command.Correctable(command.Is(hook.ErrFull), "stop the software that attached them; bpftool net show dev DEV lists them. A restart of the host removes those that nothing owns any more"),
	command.Correctable(command.Is(hook.ErrOwned), "stop the other process first: pgrep -a pillion-agent lists it"),
	command.Correctable(command.Is(hook.ErrRuntime), "use sudo; devices are locked in /run/pillion/devices, which only its user may write to"),
	command.Correctable(command.Is(errNetns), "ip netns list and pillion-agent lab status list names; a path or a process ID also works"),
	command.Correctable(command.Is(fivetuple.ErrFilter), "the form is 'src=P dst=P proto=tcp sport=N dport=N', each part at most once"),
	command.Correctable(command.Is(source.ErrSampling), "for example --every 10, --random 10, --hash 10 or --min-gap 100us"),
	command.Correctable(command.Is(destination.ErrRecords), "--record-bytes 4194304 is the default"),
	command.Correctable(command.Is(agent.ErrNotRunning), "start one: pillion-agent source --dev DEV"),
	command.Correctable(command.Is(lab.ErrNotRoot), "labs require root: use sudo"),
	command.Correctable(command.Is(lab.ErrSpec), "correct the file; lab/README.md documents the keys"),
	command.Correctable(command.Is(lab.ErrNoLab), "pillion-agent lab list lists running labs; pillion-agent lab up FILE starts one"),
	command.Correctable(command.Is(lab.ErrMany), "select one with --lab NAME, or lab down NAME"),
	command.Correctable(command.Is(lab.ErrNoHost), "pillion-agent lab status lists the hosts"),
	command.Correctable(command.Is(lab.ErrNoLink), "pillion-agent lab status lists the links; only emulated links have a truth file"),
	command.Correctable(command.Is(lab.ErrForeign), "rename the lab in its file, or delete the namespace with ip netns delete"),
	command.Correctable(command.Is(lab.ErrBroken), "restart the lab; the log is /run/pillion/lab/LAB/LINK.log"),
	command.Correctable(command.Is(emulator.ErrRefused), "pillion-agent lab truth --json prints the current settings"),
	command.Correctable(command.Is(lab.ErrBusy), "wait for the other pillion-agent lab command to finish"),
	command.Correctable(command.Is(report.ErrURI), "for example --oml 127.0.0.1:3003, --oml file:rows.oml or --oml file:-"),
	command.Correctable(command.Is(lab.ErrNoTun), "emulated links require tun/tap: CONFIG_TUN and /dev/net/tun"),
}

var lastHints = []command.Hint{
	command.Correctable(command.Is(exec.ErrNotFound), "install the program, or specify its path"),
	command.Correctable(command.Is(fs.ErrNotExist), "check the path"),
	command.Correctable(command.Is(fs.ErrPermission), "use sudo, or check the permissions of the file"),
	command.Correctable(command.Is(unix.EISDIR), "specify a file, not a directory"),
}

// Fail prints an error and returns the exit code.
func Fail(w io.Writer, err error) int {
	if part := (service.Ended{}); errors.As(err, &part) {
		return part.Code
	}
	if other := (Exit{}); errors.As(err, &other) {
		command.Fail(w, "pillion-agent", err, nil)
		return other.Code
	}
	if refused := (*ebpf.VerifierError)(nil); errors.As(err, &refused) && len(refused.Log) > 0 {
		err = hook.Explain(err) // programs of package send
	}
	return command.Fail(w, "pillion-agent", err, slices.Concat(hints, wings.Hints(), lastHints))
}
