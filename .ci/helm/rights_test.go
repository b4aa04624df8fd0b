package helm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
)

// TestRights: agents that report pods can list and watch pods and, if they read its labels, get nodes; no others
// have a right, and the token is mounted only then.
func TestRights(t *testing.T) {
	for _, row := range []struct{ name, values, want string }{
		{"labels of nodes", "agent: {kubernetes: {enabled: true}}", "pods list watch, nodes get"},
		{"other labels of nodes", "agent: {kubernetes: {enabled: true}, config: {kubernetes: {node_labels: [rack]}}}", "pods list watch, nodes get"},
		{"no labels of nodes", "agent: {kubernetes: {enabled: true}, config: {kubernetes: {node_labels: []}}}", "pods list watch"},
	} {
		t.Run(row.name, func(t *testing.T) {
			objects := mustRender(t, row.values)
			const name = "test-pillion-agent-net"
			var rights []string
			for _, rule := range objects["ClusterRole/"+name].(*rbac.ClusterRole).Rules {
				if len(rule.APIGroups) != 1 || rule.APIGroups[0] != "" || len(rule.NonResourceURLs) > 0 {
					t.Errorf("rule %+v", rule)
				}
				rights = append(rights, strings.Join(slices.Concat(rule.Resources, rule.Verbs), " "))
			}
			if got := strings.Join(rights, ", "); got != row.want {
				t.Errorf("rights %q, want %q", got, row.want)
			}
			binding := objects["ClusterRoleBinding/"+name].(*rbac.ClusterRoleBinding)
			account := objects["ServiceAccount/test-pillion-agent"].(*core.ServiceAccount)
			subjects := []rbac.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: "net"}}
			if binding.RoleRef != (rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: name}) || !slices.Equal(binding.Subjects, subjects) {
				t.Errorf("binding %+v of %+v", binding.RoleRef, binding.Subjects)
			}
			checkToken(t, objects["DaemonSet/test-pillion-agent"].(*apps.DaemonSet).Spec.Template.Spec, account.Name)
		})
	}
	pod := mustRender(t, "")["DaemonSet/test-pillion-agent"].(*apps.DaemonSet).Spec.Template.Spec
	if slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Projected != nil }) || slices.Contains(pod.Containers[0].Args, "--kubernetes") {
		t.Errorf("without agent.kubernetes.enabled: %+v", pod)
	}
}

// checkToken expects the token where the agent looks for it: readable by its privileged part alone, unlike the
// certificates.
func checkToken(t *testing.T, pod core.PodSpec, account string) {
	t.Helper()
	code, err := os.ReadFile(root + "agent/kubernetes/kubernetes.go")
	if err != nil {
		t.Fatal(err)
	}
	mounted := ""
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.Name == "api" && m.ReadOnly {
			mounted = m.MountPath
		}
	}
	if !strings.Contains(string(code), fmt.Sprintf("account          = %q", mounted+"/")) {
		t.Errorf("mounted at %q", mounted)
	}
	i := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "api" && v.Projected != nil })
	if i < 0 {
		t.Fatalf("volumes %+v", pod.Volumes)
	}
	volume := pod.Volumes[i].Projected
	token, authority := volume.Sources[0].ServiceAccountToken, volume.Sources[1].ConfigMap
	if *volume.DefaultMode != 0o400 || token.Path != "token" || *token.ExpirationSeconds != 3600 || token.Audience != "" {
		t.Errorf("token %+v, mode %o", token, *volume.DefaultMode)
	}
	if authority.Name != "kube-root-ca.crt" || authority.Items[0].Path != "ca.crt" || *authority.Items[0].Mode != 0o444 {
		t.Errorf("certificates %+v", authority)
	}
	if !slices.Contains(pod.Containers[0].Args, "--kubernetes") || pod.ServiceAccountName != account {
		t.Errorf("arguments %v of account %s", pod.Containers[0].Args, pod.ServiceAccountName)
	}
}
