# What operators install. Each is built from a copy of the tracked files (packaging/tree), and is the same, bit for bit,
# wherever that is done: the time in it is that of the last commit.
.PHONY: deb tarball sbom reproducible test-packages
DEB_VERSION ?= $(VERSION)
DEB_DIR ?= build/deb
deb: ## the Debian package into build/deb/ (DEB_VERSION=, DEB_DIR=), checked by lintian
	@tools/packages install build deb
	@packaging/deb $(DEB_VERSION) $(DEB_DIR)

tarball: ## what runs on any x86-64 Linux, with its libraries, into build/tarball/
	@tools/packages install build deb
	@packaging/tarball

sbom: ## what is in the programs, as CycloneDX, into build/sbom/
	@tools/packages install build deb
	@$(MAKE) --no-print-directory -s -j$(JOBS) all
	@packaging/sbom

reproducible: ## build package, tarball and SBOM twice, in different folders, and compare
	@tools/packages install build deb
	@packaging/reproducible

test-packages: ## what is in package, tarball and container, and that they run; the last line has the sums
	@tools/packages install build engine image test deb packages
	@packaging/deb
	@packaging/tarball
	@$(MAKE) --no-print-directory -s sbom
	@exec tests/run --parts packages
