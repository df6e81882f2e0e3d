"""The promise to plugin authors: what the package exports."""

import openab_kernel

PROMISED = """
ChannelSection Clock ConfigError ContextFacts KernelError MessageReceiveContext PartialDeliveryError
PlatformMessageNotDispatchedError PluginError SendError SendRejected SendThrottled SendUnknown SerialWorkers Services
Settings ShuttingDownError StoreError SystemClock __version__ build_context create_message_receive_context epoch_ms
hookimpl
"""


def test_the_package_exports_what_it_promises_and_each_of_it_is_there() -> None:
    assert sorted(openab_kernel.__all__) == sorted(PROMISED.split())
    for name in openab_kernel.__all__:
        assert getattr(openab_kernel, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(openab_kernel, "nothing")
