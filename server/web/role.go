package web

import (
	"maps"
	"slices"

	"pillion.dev/api/pillionv1/pillionv1connect"
)

// role is the role of a token; each includes those before it.
type role int

const (
	anyone role = iota // no token required
	viewer
	analyst
	operator
	admin
)

var roleNames = map[role]string{anyone: "anyone", viewer: "viewer", analyst: "analyst", operator: "operator", admin: "admin"}

func (r role) String() string { return roleNames[r] }

// parseRole parses the role of a user. The role of hosts, join, is not one.
func parseRole(name string) (role, bool) {
	for r, known := range roleNames {
		if r != anyone && known == name {
			return r, true
		}
	}
	return 0, false
}

// place is which server of a fleet answers a procedure.
type place int

const (
	// here is the server that is asked: it has the rows, or asks the archive.
	here place = iota
	// leading is the one that runs control: it alone changes agents, sessions, alarms and tokens, and its answers
	// include what was changed before.
	leading
)

// scoping is what a procedure does for a token with a scope.
type scoping int

const (
	// undeclared procedures are refused, as the following ones are.
	undeclared scoping = iota
	// refused: its answer, or what it does, cannot be limited.
	refused
	// within: the handler limits its answer to the scope, rows by reading them through reads.
	within
	// open: its answer has nothing of agents, or only of the caller.
	open
)

// rule is the role that a procedure requires, where it is answered, and how for a token with a scope.
type rule struct {
	role
	place
	scoping
}

// roles are the rules of all procedures. Others are not served.
var roles = map[string]rule{
	pillionv1connect.AgentServiceListAgentsProcedure:    {viewer, leading, within},
	pillionv1connect.AgentServiceGetAgentProcedure:      {viewer, leading, within},
	pillionv1connect.AgentServiceSetLabelsProcedure:     {operator, leading, refused},
	pillionv1connect.AgentServiceApproveAgentProcedure:  {operator, leading, refused},
	pillionv1connect.AgentServiceRevokeAgentProcedure:   {admin, leading, refused},
	pillionv1connect.AgentServiceDeleteAgentProcedure:   {admin, leading, refused},
	pillionv1connect.AgentServiceCheckAgentProcedure:    {operator, leading, refused},
	pillionv1connect.AgentServiceDescribeAgentProcedure: {operator, leading, refused},

	pillionv1connect.AlarmServiceListAlarmsProcedure:       {viewer, leading, within},
	pillionv1connect.AlarmServiceAcknowledgeAlarmProcedure: {operator, leading, refused},
	pillionv1connect.AlarmServiceListAlarmRulesProcedure:   {viewer, here, within},
	pillionv1connect.AlarmServiceListSilencesProcedure:     {viewer, leading, within},
	pillionv1connect.AlarmServiceCreateSilenceProcedure:    {operator, leading, refused},
	pillionv1connect.AlarmServiceExpireSilenceProcedure:    {operator, leading, refused},

	pillionv1connect.SessionServicePlanSessionProcedure:   {viewer, leading, refused},
	pillionv1connect.SessionServiceCreateSessionProcedure: {operator, leading, refused},
	pillionv1connect.SessionServiceListSessionsProcedure:  {viewer, leading, within},
	pillionv1connect.SessionServiceGetSessionProcedure:    {viewer, leading, within},
	pillionv1connect.SessionServiceChangeSessionProcedure: {operator, leading, refused},
	pillionv1connect.SessionServicePauseSessionProcedure:  {operator, leading, refused},
	pillionv1connect.SessionServiceResumeSessionProcedure: {operator, leading, refused},
	pillionv1connect.SessionServiceStopSessionProcedure:   {operator, leading, refused},
	pillionv1connect.SessionServiceDeleteSessionProcedure: {operator, leading, refused},
	pillionv1connect.SessionServiceListRunsProcedure:      {viewer, leading, within},
	pillionv1connect.SessionServiceListPointsProcedure:    {viewer, leading, open},
	pillionv1connect.SessionServiceExplainPairProcedure:   {viewer, leading, within},

	pillionv1connect.DataServiceListStreamsProcedure:  {viewer, here, within},
	pillionv1connect.DataServiceTailProcedure:         {viewer, here, within},
	pillionv1connect.DataServiceSeriesProcedure:       {viewer, here, within},
	pillionv1connect.DataServiceQueryProcedure:        {analyst, here, within},
	pillionv1connect.DataServiceListRowsProcedure:     {viewer, here, within},
	pillionv1connect.DataServiceExportProcedure:       {viewer, here, within},
	pillionv1connect.DataServiceSetRetentionProcedure: {admin, here, refused},

	pillionv1connect.FlowServiceWindowsProcedure:       {viewer, here, within},
	pillionv1connect.FlowServiceWatchWindowsProcedure:  {viewer, here, within},
	pillionv1connect.FlowServiceWatchPairsProcedure:    {viewer, here, within},
	pillionv1connect.FlowServiceSiteMatrixProcedure:    {viewer, here, within},
	pillionv1connect.FlowServiceListFlowsProcedure:     {viewer, here, within},
	pillionv1connect.FlowServicePairClocksProcedure:    {viewer, here, within},
	pillionv1connect.FlowServiceServiceLevelsProcedure: {viewer, here, within},
	// Sampling is known where sessions are controlled.
	pillionv1connect.FlowServiceTrafficMatrixProcedure: {viewer, leading, within},

	pillionv1connect.TopologyServiceGetTopologyProcedure:     {viewer, here, within},
	pillionv1connect.TopologyServiceGetPathChangeProcedure:   {viewer, here, within},
	pillionv1connect.TopologyServiceGetRouterDelaysProcedure: {viewer, here, within},
	pillionv1connect.TopologyServiceTraceProcedure:           {operator, here, refused},

	pillionv1connect.ServerServiceHealthProcedure:      {anyone, here, open},
	pillionv1connect.ServerServiceBuildInfoProcedure:   {anyone, here, open},
	pillionv1connect.ServerServiceWhoAmIProcedure:      {viewer, here, open},
	pillionv1connect.ServerServiceListEventsProcedure:  {viewer, here, within},
	pillionv1connect.ServerServiceCreateTokenProcedure: {admin, leading, refused},
	pillionv1connect.ServerServiceListTokensProcedure:  {admin, leading, refused},
	pillionv1connect.ServerServiceRevokeTokenProcedure: {admin, leading, refused},

	// Authenticated by a join token in the request, or by the client certificate.
	pillionv1connect.EnrolServiceEnrolProcedure:    {anyone, leading, open},
	pillionv1connect.EnrolServiceRenewProcedure:    {anyone, leading, open},
	pillionv1connect.EnrolServiceStandingProcedure: {anyone, leading, open},
}

// Patterns of the paths that are no procedures.
const (
	exportPath  = "GET /export"
	levelsPath  = "GET /service-levels"
	metricsPath = "GET /metrics"
	healthPath  = "GET /healthz"
	openAPIPath = "GET /openapi.json"
	pagePath    = "/"
)

// plain are the rules of these paths, all of which are answered here. Others are not served.
var plain = map[string]rule{
	exportPath:  {viewer, here, within},
	levelsPath:  {viewer, here, within},
	metricsPath: {viewer, here, within}, // anyone, if the options say so
	healthPath:  {anyone, here, open},
	openAPIPath: {anyone, here, open},
	pagePath:    {anyone, here, open}, // the same files for everybody
}

// PlainPaths are the paths that are no procedures, as patterns of http.ServeMux, such as "GET /export".
func PlainPaths() []string { return slices.Sorted(maps.Keys(plain)) }

// audited reports whether calls of a procedure are audited: those that change something
// or act on a host. Reading is not.
func audited(procedure string) bool {
	switch procedure {
	case pillionv1connect.EnrolServiceEnrolProcedure, pillionv1connect.EnrolServiceRenewProcedure:
		return true
	case pillionv1connect.ServerServiceListTokensProcedure:
		return false
	}
	return roles[procedure].role >= operator
}
