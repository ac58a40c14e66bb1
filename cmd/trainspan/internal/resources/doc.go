// Package resources samples what the processes of a command use, from outside:
// processor, memory, reads and writes, page faults, the limits of their control
// group, and GPUs. It runs no code in them and needs no rights beyond those of
// their user.
package resources
