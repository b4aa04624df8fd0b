package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../../"
	chart = root + "dist/helm/pillion"
)

// types are the kinds of objects that the chart may have.
var types = map[string]func() meta.Object{
	"v1/ConfigMap": func() meta.Object { return new(core.ConfigMap) }, "v1/Secret": func() meta.Object { return new(core.Secret) },
	"v1/Service": func() meta.Object { return new(core.Service) }, "v1/ServiceAccount": func() meta.Object { return new(core.ServiceAccount) },
	"apps/v1/StatefulSet": func() meta.Object { return new(apps.StatefulSet) }, "apps/v1/DaemonSet": func() meta.Object { return new(apps.DaemonSet) },
	"networking.k8s.io/v1/NetworkPolicy":              func() meta.Object { return new(networking.NetworkPolicy) },
	"rbac.authorization.k8s.io/v1/ClusterRole":        func() meta.Object { return new(rbac.ClusterRole) },
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() meta.Object { return new(rbac.ClusterRoleBinding) },
}

// decode decodes a document strictly into the type that it names.
func decode(document string) (name string, object meta.Object, err error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return "", nil, err
	}
	create, ok := types[kind.APIVersion+"/"+kind.Kind]
	if !ok {
		return "", nil, fmt.Errorf("unexpected kind %s/%s", kind.APIVersion, kind.Kind)
	}
	object = create()
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		return "", nil, err
	}
	if errs := validation.ValidateLabels(object.GetLabels(), field.NewPath("metadata", "labels")); len(errs) > 0 {
		return "", nil, errs.ToAggregate()
	}
	return kind.Kind + "/" + object.GetName(), object, nil
}

// render returns the objects of the chart with these values, by kind and name.
func render(values string) (map[string]meta.Object, error) {
	files, err := execute(chart, values)
	if err != nil {
		return nil, err
	}
	objects := map[string]meta.Object{}
	for file, text := range files {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			if strings.TrimSpace(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(document, "")) == "" {
				continue
			}
			name, object, err := decode(document)
			if err != nil {
				return nil, fmt.Errorf("decode object of %s: %w:\n%s", file, err, document)
			}
			objects[name] = object
		}
	}
	return objects, nil
}

func mustRender(t *testing.T, values string) map[string]meta.Object {
	t.Helper()
	objects, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestObjects(t *testing.T) {
	server := []string{"ConfigMap/test-pillion-server", "NetworkPolicy/test-pillion-server", "Service/test-pillion-server",
		"ServiceAccount/test-pillion-server", "StatefulSet/test-pillion-server"}
	agent := []string{"ConfigMap/test-pillion-agent", "DaemonSet/test-pillion-agent", "ServiceAccount/test-pillion-agent"}
	for _, row := range []struct {
		name, values string
		want         []string
	}{
		{"defaults", "", slices.Concat(server, agent)},
		{"with a join token", "agent: {joinSecret: {token: pj_1}}", slices.Concat(server, agent, []string{"Secret/pillion-join"})},
		{"server only", "agent: {enabled: false}", server},
		{"agents of a server elsewhere", "{server: {enabled: false}, agent: {server: noc.example}}", agent},
		{"without policy", "{agent: {enabled: false}, networkPolicy: {enabled: false}}", slices.DeleteFunc(slices.Clone(server), func(s string) bool {
			return strings.HasPrefix(s, "NetworkPolicy")
		})},
		{"everything set", everything, slices.Concat(server, agent, []string{"ClusterRole/test-pillion-agent-net", "ClusterRoleBinding/test-pillion-agent-net"})},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for name := range mustRender(t, row.values) {
				got = append(got, name)
			}
			slices.Sort(got)
			slices.Sort(row.want)
			if !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

const everything = `
image: {registry: registry.example/net, tag: v1.2, pullPolicy: Always, pullSecrets: [a, b]}
server:
  hosts: [noc.example, 192.0.2.1]
  config: {site_label: zone, retention: {"*": {age: 31d}}}
  storage: {size: 1Ti, className: fast}
  service: {type: LoadBalancer, annotations: {example.com/a: b}}
  resources: {}
  nodeSelector: {disk: fast}
  tolerations: [{key: a, operator: Exists}]
agent:
  config: {labels: {site: a}}
  policy: {transit: [10.0.0.0/8]}
  kubernetes: {enabled: true}
  dataPath: /srv/pillion
  seccompProfile: {type: Localhost, localhostProfile: pillion.json}
  priorityClassName: system-node-critical
  resources: {limits: {cpu: "1"}}
networkPolicy:
  nodes: [192.0.2.0/24]
  clients: [{namespaceSelector: {matchLabels: {a: b}}}]
  egress: [{to: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{port: 443}]}]
`

func TestRefusedValues(t *testing.T) {
	for _, row := range []struct{ name, values, want string }{
		{"unknown key", "agents: {}", "agents"},
		{"unknown key below", "server: {replicas: 3}", "replicas"},
		{"tag with a slash", "image: {tag: a/b}", "tag"},
		{"pull policy", "image: {pullPolicy: Sometimes}", "pullPolicy"},
		{"node that is no prefix", "networkPolicy: {nodes: [noc.example]}", "nodes"},
		{"size", "server: {storage: {size: big}}", "size"},
		{"relative path", "agent: {dataPath: data}", "dataPath"},
		{"unknown key of Kubernetes", "agent: {kubernetes: {api: x}}", "api"},
		{"agents without a server", "server: {enabled: false}", "set agent.server"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := render(row.values); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want an error about %q", err, row.want)
			}
		})
	}
}

// TestCapabilities: agents have the capabilities of the systemd unit, and CHOWN.
func TestCapabilities(t *testing.T) {
	unit, err := os.ReadFile(root + "dist/pillion-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CHOWN"}
	for _, name := range strings.Fields(regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindStringSubmatch(string(unit))[1]) {
		want = append(want, strings.TrimPrefix(name, "CAP_"))
	}
	pod := mustRender(t, "")["DaemonSet/test-pillion-agent"].(*apps.DaemonSet).Spec.Template.Spec
	context := pod.Containers[0].SecurityContext
	var got []string
	for _, c := range context.Capabilities.Add {
		got = append(got, string(c))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || !slices.Equal(context.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("capabilities %v, want %v; dropped before: %v", got, want, context.Capabilities.Drop)
	}
	if !pod.HostNetwork || pod.HostPID || pod.HostIPC || context.Privileged != nil || *context.AllowPrivilegeEscalation || !*context.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Errorf("unexpected privileges: %+v", pod)
	}
	if len(pod.Containers[0].Env) != 2 || !slices.Contains(pod.Containers[0].Args, "--token-file=/etc/pillion-join/token") {
		t.Errorf("join token not from its file: %v, %v", pod.Containers[0].Env, pod.Containers[0].Args)
	}
	mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool {
		return m.Name == "join" && m.MountPath == "/etc/pillion-join" && m.ReadOnly
	})
	from := slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool {
		return v.Name == "join" && v.Secret != nil && v.Secret.SecretName == "pillion-join" && *v.Secret.DefaultMode == 0o400 &&
			slices.Equal(v.Secret.Items, []core.KeyToPath{{Key: "token", Path: "token"}})
	})
	if !mounted || !from {
		t.Errorf("the Secret is not mounted: %+v, %+v", pod.Volumes, pod.Containers[0].VolumeMounts)
	}
	env := pod.Containers[0].Env
	if env[0].Value != "test-pillion-server.net.svc" || env[1].Name != "PILLION_NODE" || env[1].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Errorf("agents join %s as %+v", env[0].Value, env[1])
	}
}

func TestServer(t *testing.T) {
	objects := mustRender(t, everything)
	set := objects["StatefulSet/test-pillion-server"].(*apps.StatefulSet)
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || !*container.SecurityContext.ReadOnlyRootFilesystem || *container.SecurityContext.AllowPrivilegeEscalation || len(container.SecurityContext.Capabilities.Add) > 0 || !slices.Equal(container.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("unexpected privileges: %+v, %+v", pod.SecurityContext, container.SecurityContext)
	}
	if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "1Ti" {
		t.Errorf("volume of %s", size)
	}
	if container.Image != "registry.example/net/pillion-server:v1.2" {
		t.Errorf("image %s", container.Image)
	}
	for _, name := range []string{"test-pillion-server.net.svc", "noc.example", "192.0.2.1"} {
		if !strings.Contains(strings.Join(container.Args, " "), name) {
			t.Errorf("certificate without %s: %v", name, container.Args)
		}
	}
	service := objects["Service/test-pillion-server"].(*core.Service).Spec
	for key, value := range service.Selector {
		if set.Spec.Template.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, the pods have %v", key, value, set.Spec.Template.Labels)
		}
	}
	checkPolicy(t, objects["NetworkPolicy/test-pillion-server"].(*networking.NetworkPolicy).Spec, container.Ports)
}

// checkPolicy compares the policy with the table of docs/howto/kubernetes.md; ports have the names that the container gives them.
func checkPolicy(t *testing.T, policy networking.NetworkPolicySpec, named []core.ContainerPort) {
	t.Helper()
	numbers := func(ports []networking.NetworkPolicyPort) (all []string) {
		for _, p := range ports {
			number := p.Port.String()
			for _, c := range named {
				if c.Name == number {
					number = fmt.Sprint(c.ContainerPort)
				}
			}
			all = append(all, number)
		}
		return all
	}
	var got []string
	for _, rule := range policy.Ingress {
		got = append(got, fmt.Sprint("in ", numbers(rule.Ports)))
	}
	for _, rule := range policy.Egress {
		got = append(got, fmt.Sprint("out ", numbers(rule.Ports)))
	}
	want := []string{"in [8470 8471]", "in [8470]", "out [53 53]", "out [443]"}
	if !slices.Equal(got, want) || policy.Ingress[0].From[0].IPBlock.CIDR != "192.0.2.0/24" || len(policy.PolicyTypes) != 2 {
		t.Errorf("policy permits %v, want %v: %+v", got, want, policy)
	}
}

// TestCommandLines: each flag of a container is in the reference of its command, which is generated.
func TestCommandLines(t *testing.T) {
	objects := mustRender(t, everything)
	for program, pod := range map[string]core.PodSpec{
		"agent":  objects["DaemonSet/test-pillion-agent"].(*apps.DaemonSet).Spec.Template.Spec,
		"server": objects["StatefulSet/test-pillion-server"].(*apps.StatefulSet).Spec.Template.Spec,
	} {
		text, err := os.ReadFile(root + "docs/reference/cli-" + program + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), "\n## pillion-"+program+" run\n")
		section, _, _ = strings.Cut(section, "\n## ")
		args := pod.Containers[0].Args
		if args[0] != "run" || len(args) < 3 {
			t.Errorf("command line %v", args)
		}
		for _, arg := range args[1:] {
			if flag, _, valued := strings.Cut(arg, "="); !strings.Contains(section, "\n- `"+flag+map[bool]string{true: "=", false: "`:"}[valued]) {
				t.Errorf("pillion-%s run has no %s", program, arg)
			}
		}
		for _, variable := range pod.Containers[0].Env {
			if !strings.Contains(section, "("+variable.Name+")") || variable.ValueFrom != nil && variable.ValueFrom.FieldRef == nil {
				t.Errorf("pillion-%s run has no variable %+v, or it is from a Secret", program, variable)
			}
		}
	}
}

// TestDocumentedValues: docs/howto/kubernetes.md has each value, with the description of the schema.
func TestDocumentedValues(t *testing.T) {
	document, err := os.ReadFile(root + "docs/howto/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	type property struct {
		Description string
		Properties  map[string]property
	}
	var schema property
	text, err := os.ReadFile(chart + "/values.schema.json")
	if err == nil {
		err = yaml.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := load(chart+"/values.yaml", &values); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global") // Helm's own
	var check func(prefix string, p property, values map[string]any)
	check = func(prefix string, p property, values map[string]any) {
		for name, below := range p.Properties {
			path := prefix + name
			if len(below.Properties) > 0 {
				inner, _ := values[name].(map[string]any)
				check(path+".", below, inner)
				continue
			}
			if row := fmt.Sprintf("| `%s` | %s |\n", path, below.Description); !strings.Contains(string(document), row) {
				t.Errorf("docs/howto/kubernetes.md lacks: %s", row)
			}
			if _, ok := values[name]; !ok {
				t.Errorf("values.yaml lacks %s", path)
			}
		}
	}
	check("", schema, values)
}
