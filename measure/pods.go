package measure

// Pods are the pods of Kubernetes nodes and their addresses, as agents see them: a row for each address
// when a pod gets it and when it no longer has it, and again from time to time while it has it.
var Pods = Schema{Name: "pods", Doc: "addresses of the pods of Kubernetes nodes", Fields: []Field{
	TimeField,
	{"address", String, "", "address of the pod"},
	{"namespace", String, "", "its namespace"},
	{"pod", String, "", "its name"},
	{"node", String, "", "node that it runs on"},
	{"held", Bool, "", "the pod has the address; false: no longer"},
}}

func init() { AddStandard(&Pods) }
