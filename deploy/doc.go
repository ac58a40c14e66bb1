// Package deploy has no code: alerts for Prometheus, dashboards for Grafana, and what
// starts the agent of a node. Its tests make the alerts and the dashboards from the
// table of metrics, and run them through Prometheus's own tool.
//
//	go test ./deploy -update
package deploy
