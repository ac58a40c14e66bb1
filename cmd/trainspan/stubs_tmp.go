package main
import "github.com/spf13/cobra"
func newValidate(a *app) *cobra.Command{return &cobra.Command{Use:"validate"}}
func newImport(a *app) *cobra.Command{return &cobra.Command{Use:"import"}}
func newWatch(a *app) *cobra.Command{return &cobra.Command{Use:"watch"}}
func newMerge(a *app) *cobra.Command{return &cobra.Command{Use:"merge"}}
func newSplit(a *app) *cobra.Command{return &cobra.Command{Use:"split"}}
func newRecover(a *app) *cobra.Command{return &cobra.Command{Use:"recover"}}
func newConvert(a *app) *cobra.Command{return &cobra.Command{Use:"convert"}}
func newReplay(a *app) *cobra.Command{return &cobra.Command{Use:"replay"}}
