# The Python SDK's wheel, built without a network by the build backend of the tests' environment.
PY_SDK_VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' clients/python/src/agent_sandbox_sdk/__init__.py)
PY_WHEEL := $(BUILD)/clients/agent_sandbox_sdk-$(PY_SDK_VERSION)-py3-none-any.whl
CLIENT_PACKAGES += $(PY_WHEEL)
.PHONY: clients-python
clients-python: $(PY_WHEEL)

$(PY_WHEEL): $(wildcard clients/python/src/agent_sandbox_sdk/*) clients/python/pyproject.toml clients/python/README.md LICENSE
	@mkdir -p $(@D)
	@tests/tools/venv
	build/venv/bin/python -m build --wheel --no-isolation -o $(@D) clients/python >$(@D)/python.log || { cat $(@D)/python.log; false; }
	@touch $@
