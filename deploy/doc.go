// Package deploy has no code. It holds the alerts for Prometheus, the
// dashboards for Grafana and the unit files that start the agent of a node. Its
// tests generate the alerts and the dashboards from the table of metrics, and
// check them with Prometheus's own tool.
//
//	go test ./deploy -update
package deploy
